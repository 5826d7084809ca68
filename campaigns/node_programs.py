"""Random nodes: typed trees of every kind that fit together, for tests of what is made of nodes.

They are made as the checker makes them, and have no bounds on their inputs, so that many runs trap:
which trap it is, and in which step, is what paths and optimisations are most easily wrong about.
"""

from random import Random

from vegakit.contracts import (
    Arithmetic,
    ArrayMade,
    ArrayType,
    BooleanType,
    Clause,
    Conditional,
    Constant,
    DecimalType,
    EnumType,
    Expression,
    FieldOf,
    FunctionCall,
    IntegerType,
    Inverted,
    ItemLoop,
    Logic,
    LoopKind,
    Membership,
    NamedValue,
    Negated,
    NodeInput,
    NodeProgram,
    NodeStep,
    NodeType,
    RecordMade,
    RecordType,
    Relation,
    Rescaled,
    TimestampType,
    walk,
)

INTEGER, BOOLEAN, INSTANT = IntegerType(), BooleanType(), TimestampType()
CHOICE = EnumType(("high", "low", "none"))
SCALES = (0, 2, 4, 18)
PAIR = RecordType((("count", INTEGER), ("price", DecimalType(2))), "Pair")
ITEMS = ArrayType(PAIR, 4)
ERRORS = {"overflow": "too_much", "division_by_zero": "by_zero", "guard": "refused"}
_PLANS: tuple[tuple[LoopKind | None, ...], ...] = (
    (),
    (LoopKind.MAP, LoopKind.FILTER),
    (LoopKind.MAP, None, LoopKind.FILTER),
)
_NUMBERS = (0, 1, 2, 3, 5, 10, 100, -1, -7, 2**31, 2**62, 2**63 - 1)


class NodeMaker:
    """Makes nodes of random parts. With `items`, there is a collection and loops over it."""

    def __init__(self, random: Random, *, items: bool = False) -> None:
        self._random, self._items = random, items
        self._names: dict[str, NodeType] = {}
        self._loops = 0
        self._calm = False
        self._made = list[Expression]()

    def node(self) -> NodeProgram:
        """Return a node of up to seven steps; most of them use what came before."""
        inputs: dict[str, NodeType] = {
            **dict.fromkeys(("a", "b"), INTEGER),
            **dict.fromkeys(("f", "g"), BOOLEAN),
            **dict.fromkeys(("t", "u"), INSTANT),
            "e": CHOICE,
            "pair": PAIR,
            **{f"d{scale}": DecimalType(scale) for scale in SCALES},
            **({"items": ITEMS} if self._items else {}),
        }
        self._names = {**inputs}
        before = [self._clause("precondition")] if self._chance(0.2) else []
        steps, outputs = list[NodeStep](), dict[str, NodeType]()
        changed = "a" if self._chance(0.5) else ""
        plan = self._random.choice(_PLANS) if self._items else ()
        for n in range(max(len(plan), self._random.randint(1, 7))):
            name = "a" if changed and n == 1 else f"s{n}"
            step = self._step(name, plan[n] if n < len(plan) else None)
            steps.append(step)
            if step.expression is not None:
                self._names[name] = step.expression.type
                if name == "a" or (self._chance(0.4) and n >= len(plan) - 1):
                    outputs[name] = step.expression.type
            if plan and n == len(plan) - 1:
                self._names.pop("s0", None)  # else most maps would be read by something else
        if not outputs:
            steps.append(NodeStep("last", "compute", 1, self.value(INTEGER, 3)))
            self._names["last"] = outputs["last"] = INTEGER
        if "a" in outputs:
            self._names["old(a)"] = INTEGER
        self._calm = self._chance(0.5)
        after = [self._clause("postcondition") for _ in range(self._random.randint(0, 2))]
        made = tuple(NodeInput(name, kind) for name, kind in inputs.items())
        codes = (*ERRORS.values(),)
        return NodeProgram(
            "random_v1", "test", "Test.", made, (*outputs.items(),), codes,
            (*before,), (*steps,), (*after,), (PAIR,),
        )  # fmt: skip

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _clause(self, kind: str) -> Clause:
        return Clause(kind, f"clause {self._random.random()}", 1, self.value(BOOLEAN, 3))

    def _step(self, name: str, planned: LoopKind | None = None) -> NodeStep:
        # Without arithmetic in it a step is total, and may be moved.
        self._calm = self._chance(0.5)
        errors = {key: code for key, code in ERRORS.items() if key == "guard" or self._chance(0.3)}
        guards = (self._clause("guard"),) if self._chance(0.25) else ()
        if planned is not None and name != "a":
            return self._loop_step(name, guards, errors, planned)
        if guards and name != "a" and self._chance(0.2):
            return NodeStep(name, "check", 1, None, guards, errors)
        if name != "a" and self._items and self._chance(0.4):
            return self._loop_step(name, guards, errors)
        kind = INTEGER if name == "a" else self._random.choice(self._kinds())
        return NodeStep(name, "compute", 1, self.value(kind, 4), guards, errors)

    def _kinds(self) -> list[NodeType]:
        return [INTEGER, INTEGER, BOOLEAN, CHOICE, PAIR, *map(DecimalType, SCALES)]

    def _loop_step(
        self,
        name: str,
        guards: tuple[Clause, ...],
        errors: dict[str, str],
        planned: LoopKind | None = None,
    ) -> NodeStep:
        arrays = [n for n, kind in self._names.items() if kind == ITEMS]
        # Most loops run over what the last one made: a filter over a map, a map over a sort.
        latest = arrays[-1] if planned or self._chance(0.8) else self._random.choice(arrays)
        over, item = NamedValue(ITEMS, latest), self._item()
        kind = planned or self._random.choice((LoopKind.MAP, LoopKind.FILTER, LoopKind.SORT))
        self._names[item] = PAIR
        body = {
            LoopKind.MAP: lambda: self.value(PAIR, 3),
            LoopKind.FILTER: lambda: self.value(BOOLEAN, 3),
            LoopKind.SORT: lambda: self.value(INTEGER, 2),
        }[kind]()
        del self._names[item]
        loop = ItemLoop(ITEMS, kind, item, over, body)
        return NodeStep(name, str(kind), 1, loop, guards, errors)

    def _item(self) -> str:
        self._loops += 1
        return f"x{self._loops % 3}" if f"x{self._loops % 3}" not in self._names else "xx"

    def value(self, kind: NodeType, depth: int) -> Expression:
        """Return an expression of a type, now and then one that stands elsewhere already."""
        if depth > 0 and self._chance(0.15):
            again = [each for each in self._made if each.type == kind and self._is_known(each)]
            if again:
                return self._random.choice(again)
        made = self._new(kind, depth)
        if depth > 1:
            self._made = [*self._made[-30:], made]
        return made

    def _is_known(self, part: Expression) -> bool:
        named = {each.name for each in walk(part) if isinstance(each, NamedValue)}
        return named <= {*self._names} and not any(isinstance(e, ItemLoop) for e in walk(part))

    def _new(self, kind: NodeType, depth: int) -> Expression:
        named = [name for name, has in self._names.items() if has == kind]
        fields = [
            FieldOf(part, NamedValue(PAIR, name), field)
            for name, has in self._names.items()
            if has == PAIR
            for field, part in PAIR.fields
            if part == kind
        ]
        known: list[Expression] = [*(NamedValue(kind, name) for name in named), *fields]
        if depth <= 0 or self._chance(0.2):
            if known and self._chance(0.8):
                return self._random.choice(known)
            return self._constant(kind, known)
        if self._chance(0.1):
            test, sides = self.value(BOOLEAN, depth - 1), (depth - 1, depth - 1)
            return Conditional(kind, test, *(self.value(kind, left) for left in sides))
        match kind:
            case IntegerType():
                return self._integer(depth - 1)
            case DecimalType():
                return self._decimal(kind, depth - 1)
            case BooleanType():
                return self._boolean(depth - 1)
            case RecordType():
                fields_made = tuple(
                    (name, self.value(part, depth - 1)) for name, part in kind.fields
                )
                return RecordMade(kind, fields_made)
            case _:
                return self._random.choice([*known, self._constant(kind, known)])

    def _constant(self, kind: NodeType, known: list[Expression]) -> Expression:
        match kind:
            case BooleanType():
                return Constant(kind, self._chance(0.5))
            case EnumType():
                return Constant(kind, self._random.choice(kind.choices))
            case IntegerType() | DecimalType():
                return Constant(kind, self._random.choice(_NUMBERS))
            case TimestampType():
                return Constant(kind, self._random.randint(-(10**15), 10**15))
            case _:
                return self._random.choice(known)

    def _integer(self, depth: int) -> Expression:
        shape = self._random.random()
        left = self.value(INTEGER, depth)
        if self._calm:
            return self._extreme(INTEGER, left, depth)
        if shape < 0.15:
            return Negated(INTEGER, left) if shape < 0.07 else FunctionCall(INTEGER, "ABS", (left,))
        if shape < 0.2:
            sides = (self.value(INSTANT, 0), self.value(INSTANT, 0))
            return FunctionCall(INTEGER, "SECONDS", sides)
        if self._items and shape < 0.35:
            return self._over(LoopKind.SUM, INTEGER, depth)
        if shape < 0.5:
            return self._extreme(INTEGER, left, depth)
        operator = self._random.choice("+-*/%")
        return Arithmetic(INTEGER, operator, left, self.value(INTEGER, depth))

    def _extreme(self, kind: NodeType, left: Expression, depth: int) -> Expression:
        name = self._random.choice(("MIN", "MAX"))
        return FunctionCall(kind, name, (left, self.value(kind, depth)))

    def _decimal(self, kind: DecimalType, depth: int) -> Expression:
        shape = self._random.random()
        if shape < 0.2 and not self._calm:
            other = self._random.choice((INTEGER, *map(DecimalType, SCALES)))
            part = self.value(other, depth)
            return part if part.type == kind else Rescaled(kind, part)
        left = self.value(kind, depth)
        if self._calm:
            return self._extreme(kind, left, depth)
        if shape < 0.25:
            return Negated(kind, left)
        if shape < 0.3:
            return FunctionCall(kind, "ABS", (left,))
        if shape < 0.4:
            return self._extreme(kind, left, depth)
        if shape < 0.6:
            return Arithmetic(kind, self._random.choice("+-"), left, self.value(kind, depth))
        sides = (self.value(DecimalType(self._random.choice(SCALES)), depth) for _ in range(2))
        return Arithmetic(kind, self._random.choice("*/"), *sides)

    def _boolean(self, depth: int) -> Expression:
        shape = self._random.random()
        if shape < 0.15:
            return Inverted(BOOLEAN, self.value(BOOLEAN, depth))
        if shape < 0.4:
            sides = (self.value(BOOLEAN, depth), self.value(BOOLEAN, depth))
            return Logic(BOOLEAN, self._random.choice(("AND", "OR")), *sides)
        if shape < 0.5:
            item = self._random.choice((INTEGER, CHOICE))
            listed = tuple(self.value(item, 1) for _ in range(self._random.randint(1, 3)))
            whole = ArrayMade(ArrayType(item, len(listed)), listed)
            return Membership(BOOLEAN, self.value(item, depth), whole)
        if self._items and shape < 0.6:
            return self._over(
                self._random.choice((LoopKind.FORALL, LoopKind.EXISTS)), BOOLEAN, depth
            )
        if shape < 0.7:
            kind = self._random.choice((BOOLEAN, CHOICE, INSTANT))
            sides = (self.value(kind, depth), self.value(kind, depth))
            return Relation(BOOLEAN, self._random.choice(("==", "!=")), *sides)
        numbers = (INTEGER, INTEGER, *map(DecimalType, SCALES))
        sides = (self.value(self._random.choice(numbers), depth) for _ in range(2))
        sign = self._random.choice(("==", "!=", "<", "<=", ">", ">="))
        return Relation(BOOLEAN, sign, *sides)

    def _over(self, kind: LoopKind, result: NodeType, depth: int) -> Expression:
        arrays = [n for n, has in self._names.items() if has == ITEMS]
        item = self._item()
        if item in self._names:
            return self._constant(result, [])
        self._names[item] = PAIR
        body = self.value(result, depth)
        del self._names[item]
        return ItemLoop(result, kind, item, NamedValue(ITEMS, self._random.choice(arrays)), body)
