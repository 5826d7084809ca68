"""Contracts: nodes under typed expressions, and whether a candidate may replace what is trusted
(pure).

`node_types`, `expressions`, `checker`, `typed` and `evaluation` are the contract language, from its
text to a verdict. `confidence` counts comparisons and tests them however often one looks; `rollout`
decides by them who answers a call. Nobody here waits or reads a clock.
"""

from vegakit.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.contracts.checker import (
        NameScope as NameScope,
        check_expression as check_expression,
        name_fault as name_fault,
    )
    from vegakit.contracts.confidence import (
        ALPHA as ALPHA,
        CALLS_BETWEEN_ALARMS as CALLS_BETWEEN_ALARMS,
        MIN_SAMPLE as MIN_SAMPLE,
        CallCosts as CallCosts,
        Confidence as Confidence,
        Evidence as Evidence,
        EvidenceHistory as EvidenceHistory,
        EvidencePoint as EvidencePoint,
        FaultDetector as FaultDetector,
        InputSource as InputSource,
        JudgeErrors as JudgeErrors,
        JudgeTally as JudgeTally,
        PairedTally as PairedTally,
        PathCost as PathCost,
        Tally as Tally,
        calls_to_alarm as calls_to_alarm,
        difference_of as difference_of,
    )
    from vegakit.contracts.evaluation import (
        ArithmeticTrap as ArithmeticTrap,
        BrokenClause as BrokenClause,
        Clause as Clause,
        Evaluator as Evaluator,
        TrapKind as TrapKind,
        Verdict as Verdict,
        evaluate as evaluate,
        judge as judge,
        scale_of as scale_of,
    )
    from vegakit.contracts.expressions import (
        ExpressionError as ExpressionError,
    )
    from vegakit.contracts.node_llvm import (
        NativeSource as NativeSource,
        NotNative as NotNative,
        llvm_source as llvm_source,
        native_obstacle as native_obstacle,
    )
    from vegakit.contracts.node_operations import (
        CAPABILITIES as CAPABILITIES,
        EFFECTS as EFFECTS,
        OPERATIONS as OPERATIONS,
        REMOTE as REMOTE,
        SECRET_PREFIX as SECRET_PREFIX,
        EffectContext as EffectContext,
        capabilities_of as capabilities_of,
        covers_capability as covers_capability,
        step_effect as step_effect,
        step_expression as step_expression,
        tree_capability as tree_capability,
    )
    from vegakit.contracts.node_python import (
        HEADER as HEADER,
        python_name as python_name,
        python_source as python_source,
    )
    from vegakit.contracts.node_types import (
        DECIMAL_LIMIT as DECIMAL_LIMIT,
        INTEGER_MAX as INTEGER_MAX,
        INTEGER_MIN as INTEGER_MIN,
        SCALARS as SCALARS,
        ArrayType as ArrayType,
        BooleanType as BooleanType,
        BytesType as BytesType,
        DecimalType as DecimalType,
        EnumType as EnumType,
        IntegerType as IntegerType,
        MapType as MapType,
        NodeType as NodeType,
        NodeTypeError as NodeTypeError,
        NodeValueError as NodeValueError,
        RecordType as RecordType,
        SetType as SetType,
        TextType as TextType,
        TimestampType as TimestampType,
        Value as Value,
        parse_type as parse_type,
        read_value as read_value,
        show_type as show_type,
        show_value as show_value,
    )
    from vegakit.contracts.nodes import (
        FAILURES as FAILURES,
        GUARD as GUARD,
        HANDLED as HANDLED,
        LOCK as LOCK,
        TOUCHED as TOUCHED,
        EffectAnswer as EffectAnswer,
        NodeEffect as NodeEffect,
        NodeInput as NodeInput,
        NodeOutcome as NodeOutcome,
        NodeProblem as NodeProblem,
        NodeProgram as NodeProgram,
        NodeRules as NodeRules,
        NodeRun as NodeRun,
        NodeStatus as NodeStatus,
        NodeStep as NodeStep,
        Sensitivity as Sensitivity,
        StateRecords as StateRecords,
        StepEffect as StepEffect,
        StepSeen as StepSeen,
        WrittenLine as WrittenLine,
        broken_outcome as broken_outcome,
        call_answer as call_answer,
        check_bounds as check_bounds,
        clause_of as clause_of,
        finish as finish,
        first_broken as first_broken,
        interpret as interpret,
        read_answer as read_answer,
        record_clauses as record_clauses,
        sensitivity_of as sensitivity_of,
        start_run as start_run,
        touched_effect as touched_effect,
        touched_type as touched_type,
        trapped as trapped,
    )
    from vegakit.contracts.optimiser import RULES as RULES, optimised as optimised
    from vegakit.contracts.rollout import (
        LAST as LAST,
        STAGES as STAGES,
        CandidateUnavailable as CandidateUnavailable,
        Compared as Compared,
        ComparisonsPaused as ComparisonsPaused,
        DetectionDelay as DetectionDelay,
        NextStage as NextStage,
        PersonAction as PersonAction,
        PersonDecided as PersonDecided,
        ReferenceRepeated as ReferenceRepeated,
        Rollout as Rollout,
        RolloutEvent as RolloutEvent,
        RolloutMode as RolloutMode,
        RolloutRoute as RolloutRoute,
        RolloutRule as RolloutRule,
        RolloutStage as RolloutStage,
        StageChange as StageChange,
        calls_to_detection as calls_to_detection,
        calls_to_stages as calls_to_stages,
        clean_runs as clean_runs,
    )
    from vegakit.contracts.typed import (
        Arithmetic as Arithmetic,
        ArrayMade as ArrayMade,
        Conditional as Conditional,
        Constant as Constant,
        Expression as Expression,
        FieldOf as FieldOf,
        FunctionCall as FunctionCall,
        Inverted as Inverted,
        ItemLoop as ItemLoop,
        ItemOf as ItemOf,
        Logic as Logic,
        LoopKind as LoopKind,
        Membership as Membership,
        NamedValue as NamedValue,
        Negated as Negated,
        RecordMade as RecordMade,
        Relation as Relation,
        Rescaled as Rescaled,
        cost_of as cost_of,
        substituted as substituted,
        walk as walk,
    )

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "checker": "NameScope check_expression name_fault",
        "confidence": (
            "ALPHA CALLS_BETWEEN_ALARMS MIN_SAMPLE CallCosts Confidence Evidence EvidenceHistory "
            "EvidencePoint FaultDetector InputSource JudgeErrors JudgeTally PairedTally PathCost "
            "Tally calls_to_alarm difference_of"
        ),
        "evaluation": (
            "ArithmeticTrap BrokenClause Clause Evaluator TrapKind Verdict evaluate judge scale_of"
        ),
        "expressions": "ExpressionError",
        "node_llvm": "NativeSource NotNative llvm_source native_obstacle",
        "node_operations": (
            "CAPABILITIES EFFECTS OPERATIONS REMOTE SECRET_PREFIX EffectContext capabilities_of "
            "covers_capability step_effect step_expression tree_capability"
        ),
        "node_python": "HEADER python_name python_source",
        "node_types": (
            "DECIMAL_LIMIT INTEGER_MAX INTEGER_MIN SCALARS ArrayType BooleanType BytesType "
            "DecimalType EnumType IntegerType MapType NodeType NodeTypeError NodeValueError "
            "RecordType SetType TextType TimestampType Value parse_type read_value show_type "
            "show_value"
        ),
        "nodes": (
            "FAILURES GUARD HANDLED LOCK TOUCHED EffectAnswer NodeEffect NodeInput NodeOutcome "
            "NodeProblem NodeProgram NodeRules NodeRun NodeStatus NodeStep Sensitivity "
            "StateRecords StepEffect StepSeen WrittenLine broken_outcome call_answer check_bounds "
            "clause_of finish first_broken interpret read_answer record_clauses sensitivity_of "
            "start_run touched_effect touched_type trapped"
        ),
        "optimiser": "RULES optimised",
        "rollout": (
            "LAST STAGES CandidateUnavailable Compared ComparisonsPaused DetectionDelay NextStage "
            "PersonAction PersonDecided ReferenceRepeated Rollout RolloutEvent RolloutMode "
            "RolloutRoute RolloutRule RolloutStage StageChange calls_to_detection calls_to_stages "
            "clean_runs"
        ),
        "typed": (
            "Arithmetic ArrayMade Conditional Constant Expression FieldOf FunctionCall Inverted "
            "ItemLoop ItemOf Logic LoopKind Membership NamedValue Negated RecordMade Relation "
            "Rescaled cost_of substituted walk"
        ),
    },
)
