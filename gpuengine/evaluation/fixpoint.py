"""Evaluate a plan: its strata in order, each in rounds to its fixpoint (semi-naive evaluation)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuengine.evaluation.driver.node_room import free_large_nodes
from gpuengine.evaluation.driver.small_rounds import Outcome
from gpuengine.evaluation.driver.stratum import SMALL_WORK, StratumEvaluation
from gpuengine.evaluation.rules.context import Context
from gpuengine.planning.plan import Stratum


def evaluate_plan(context: Context) -> None:
    """Evaluate every stratum of a context's plan into its database, whose tables are settled afterwards."""
    strata = context.plan.strata
    context.may_free_nodes = True
    context.progress.strata = len(strata)
    context.name_rules()
    try:
        for table in context.database.all_tables():
            table.backend.bind_thread()
            table.settle()
        has_nodes = False
        for number, stratum in enumerate(strata, 1):
            evaluation = StratumEvaluation(stratum, context)
            with evaluation.failing_by_rule(), context.workers.lent():
                evaluate_stratum(evaluation)
            has_nodes |= evaluation.has_nodes
            if has_nodes:
                _free_nodes(strata[number:], context)
    finally:
        context.workers.close()
    context.last_reduction = None
    context.count_facts()


def evaluate_stratum(stratum: StratumEvaluation) -> None:
    """Bring the relations of a stratum to their fixpoint.

    Rules outside the recursion run once; then all facts there are are the first delta. Each round runs the
    delta variants of the recursive rules over the last delta, and what they add is the next one, until there
    is none, or a relation has as many facts as it may have. Between two rounds the rules have seen all
    combinations of OLD facts and none with the delta, so that everything but the facts can be changed then.
    """
    stratum.begin()
    stratum.run_once()
    stratum.plan_recursion()
    stratum.renew()
    was_large = False
    while stratum.recursive and stratum.delta and not stratum.is_limited:
        stratum.place()
        stratum.reconsider_schemes()
        was_large |= stratum.leave_outgrown_nodes()
        stratum.consider_splits()
        bodies = stratum.prepare()
        small = stratum.small_bodies(bodies) if not was_large else None
        stratum.keep_indexes((*bodies, *(small or ())))
        ahead = stratum.rounds_ahead(bodies)
        if ahead is not None:
            stratum.run_ahead(ahead)
        elif small is None:
            was_large = stratum.run_round() > SMALL_WORK
        else:
            was_large = stratum.run_small_rounds(small) in (Outcome.LARGE, Outcome.OUTSIDE)
    stratum.end()


def evaluate_share(stratum: StratumEvaluation, exchange: Callable[[], bool]) -> None:
    """Bring a share of a stratum's facts to the fixpoint of all of them, while others do so with theirs.

    Before each round `exchange` hands out what was derived in the last one, adds to the relations what
    belongs to this share, and says whether anybody got anything new. It begins with the facts that are there.
    """
    stratum.begin()
    while exchange():
        stratum.take_in()
        stratum.keep_indexes(stratum.prepare())
        stratum.derive()
    stratum.end()


def _free_nodes(later: Sequence[Stratum], context: Context) -> None:
    """Free large nodes of hypertrees that no later stratum is known to read."""
    database = context.database
    rules = [variant.rule for stratum in later for variant in (*stratum.once, *stratum.recursive)]
    free_large_nodes(database, context.budget, database.evaluators.nodes_read_by(rules))
