"""`vega node prove`: what holds of nodes for all inputs, what does not, and inputs that show it."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from vegakit.cli.look import Look, Sign, Tone, count, look_of, one_line, print_json
from vegakit.cli.main import Argument, add_action
from vegakit.errors import UserError
from vegakit.vesper import (
    MOST_ITEMS,
    SOLVER_EFFORT,
    ClauseProof,
    NodeProof,
    ProofLimits,
    ProofVerdict,
    find_nodes,
    load_node,
    prove_node,
)


def add_proof_actions(actions: Any) -> None:  # noqa: ANN401  (argparse has no name)
    """Add the actions of this module to `vega node`."""
    add_action(
        actions,
        "prove",
        _prove,
        "prove that nodes keep their contracts, for all inputs",
        [
            Argument("places", nargs="+", type=Path, metavar="FILE|FOLDER"),
            Argument(
                "--most",
                type=int,
                metavar="N",
                help=f"items of a collection that are looked at, {MOST_ITEMS}; with it a proof "
                f"up to "
                f"so "
                "many is enough",
            ),
            Argument(
                "--timeout",
                type=float,
                metavar="S",
                help="seconds for a clause; without it only steps of the solver are counted "
                f"({SOLVER_EFFORT:,} a clause), which gives the same verdict on every machine",
            ),
        ],
    )


def _prove(chosen: argparse.Namespace) -> int:
    limits = _limits(chosen)
    nodes = [load_node(path).program for path in find_nodes(chosen.places)]
    look, proofs = look_of(sys.stdout), list[NodeProof]()
    for node in nodes:
        proof = prove_node(node, limits)
        proofs.append(proof)
        if not chosen.json:
            _show(proof, look)
    if chosen.json:
        print_json({"proofs": proofs})
    elif len(proofs) > 1:
        proved = sum(proof.verdict is ProofVerdict.PROVED for proof in proofs)
        print(f"{proved} of {count(len(proofs), 'node')} PROVED")
    enough = {ProofVerdict.PROVED}
    if chosen.most is not None:
        enough.add(ProofVerdict.PROVED_UP_TO)
    return 0 if all(proof.verdict in enough for proof in proofs) else 1


def _limits(chosen: argparse.Namespace) -> ProofLimits:
    if chosen.most is not None and chosen.most < 1:
        raise UserError("--most is the number of items that are looked at, 1 or more")
    if chosen.timeout is not None and chosen.timeout <= 0:
        raise UserError("--timeout is a number of seconds above 0")
    most = MOST_ITEMS if chosen.most is None else chosen.most
    return ProofLimits(most, timeout_s=chosen.timeout)


def _show(proof: NodeProof, look: Look) -> None:
    failed = [each for each in proof.clauses if each.verdict is ProofVerdict.NOT_PROVED]
    held = f"{len(proof.clauses) - len(failed)} of {count(len(proof.clauses), 'obligation')}"
    verdict = str(proof.verdict)
    if proof.verdict is ProofVerdict.PROVED_UP_TO:
        verdict += f" {count(proof.most, 'item')} a collection"
    sign, tone = (Sign.FAILED, Tone.BAD) if failed else (Sign.DONE, Tone.OK)
    print("\n".join(look.marked(sign, tone, f"{proof.node_id}: {verdict}, {held}")))
    for each in failed:
        for name, text in _told(each):
            print("\n".join(look.fold(one_line(text), "    ", f"  {name}: ")))


def _told(proof: ClauseProof) -> list[tuple[str, str]]:
    told = [(f"line {proof.line}", proof.what)]
    if proof.counterexample is not None:
        around: dict[str, Any] = to_builtins(proof.world) if proof.world is not None else {}
        shown = [(name, json.dumps(each)) for name, each in around.items()]
        inputs = ("inputs", json.dumps(proof.counterexample))
        return [*told, inputs, *shown, ("gives", proof.outcome)]
    return [*told, ("reason", proof.reason)]
