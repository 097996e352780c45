"""Semi-naive evaluation of one stratum: once-rules, then rounds over the deltas to the fixpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gpuengine.errors import Interrupted
from gpuengine.evaluation.bounds import flow_bounds
from gpuengine.evaluation.context import Context
from gpuengine.evaluation.failures import device_failures
from gpuengine.evaluation.node_tables import StratumNodes
from gpuengine.evaluation.progress import StratumStatistics
from gpuengine.evaluation.scheme_choice import StratumSchemes
from gpuengine.evaluation.small_rounds import Outcome, run_small_rounds
from gpuengine.evaluation.table_modules import TableModules
from gpuengine.evaluation.variants import SMALL_DELTA, VariantRunner
from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cpu.position_sets import Stopped
from gpuengine.kernels.position_sets import PoolFull
from gpuengine.language.program import Atom, BodyOrder, Literal, Rule
from gpuengine.planning.node_rules import is_node
from gpuengine.planning.plan import Stratum, Variant
from gpuengine.planning.split import Split, find_split
from gpuengine.planning.strata import body_relations, delta_variants, member_positions
from gpuengine.schemes.contract import Domain, Scheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Union

SMALL_WORK = 100_000
"""Rounds with fewer candidates than this stay in the compiled loop."""
_KNOWN_FACTS = 1000
_RECONSIDER_GROWTH = 4
T = TypeVar("T")


class StratumEvaluation:
    """Brings the relations of one stratum to their fixpoint.

    The tables' deltas belong to it while it runs. Rules may be split on the way (see `planning.split`);
    the relations that this adds live as long as the evaluation.
    """

    def __init__(self, stratum: Stratum, context: Context) -> None:
        self.context = context
        self.database = context.database
        self.stratum = stratum
        self.members = frozenset(stratum.relations)
        self.recursive = list(stratum.recursive)
        rules = list(dict.fromkeys(variant.rule for variant in (*stratum.once, *stratum.recursive)))
        self.runner = VariantRunner(context, self.members, rules)
        self.choice = StratumSchemes(stratum, context)
        self.modules = TableModules(context)
        self.nodes = StratumNodes(context)
        self.placement = context.placement
        self.statistics = StratumStatistics(stratum.number, stratum.relations)
        self._added: list[str] = []
        self._considered: dict[Rule, int] = {}

    def run(self) -> None:
        """Derive everything; an error of the device says by which rule."""
        self.context.progress.placed.append(self.statistics)
        progress = self.context.progress
        with device_failures(lambda: f"deriving by: {progress.rule}", self._tables_used):
            try:
                self._run()
            except Stopped as error:
                raise Interrupted("stopped") from error
            except PoolFull as error:
                self.context.budget.refuse_sets(", ".join(self.stratum.relations), error.needed)

    def _run(self) -> None:
        progress = self.context.progress
        progress.stratum = self.stratum.number + 1
        progress.relations = self.stratum.relations
        progress.round_in_stratum = 0
        progress.rule = self.runner.rules[0].text if self.runner.rules else ""
        self.database.growing = self.members if self.stratum.is_recursive else frozenset()
        self.retrying(lambda: self.placement.begin(self._tables_used()))
        self.choice.begin()
        flow_bounds(self.runner.bound_rules, self.database)
        for table in self.tables:
            table.rows.delta = (0, 0)
        postponed = self.choice.postponed
        self._run_once(rule for rule in self._once_rules() if rule not in postponed)
        self.choice.decide()
        self._run_once(rule for rule in self._once_rules() if rule in postponed)
        self._plan_recursion()
        self._renew()
        if self.recursive:
            self._iterate()
        self.retrying(self._settle)
        self.modules.end()
        for name in self._added:
            if not is_node(name):
                self.database.tables.pop(name, None)

    @property
    def schemes(self) -> list[Scheme]:
        """The relations of the stratum; those that read others come last."""
        found = [self.database.tables[name] for name in (*self.stratum.relations, *self._added)]
        return sorted(found, key=lambda scheme: isinstance(scheme, Union))

    @property
    def tables(self) -> list[Table]:
        """The relations of the stratum that are tables."""
        return [scheme for scheme in self.schemes if isinstance(scheme, Table)]

    def _once_rules(self) -> list[Rule]:
        return [variant.rule for variant in self.stratum.once if variant.rule not in self.choice.handled]

    def _run_once(self, rules: Iterable[Rule]) -> None:
        for rule in self._as_evaluated(rules):
            self.run_variant(Variant(rule, None, frozenset()))

    def _as_evaluated(self, rules: Iterable[Rule]) -> list[Rule]:
        """The rules as they are evaluated: over the nodes of a hypertree, if that costs less.

        With them come the rules of nodes that take part in the recursion; the others are filled by now.
        """
        result: dict[Rule, None] = {}
        for rule in rules:
            result.update(dict.fromkeys(self.nodes.in_rounds(rule, self)))
            evaluated = self.database.evaluators.evaluated(rule)
            result[evaluated] = None
            self.runner.replace(rule, evaluated)
        return list(result)

    def _plan_recursion(self) -> None:
        """The rules that are left to evaluate in rounds, now that schemes and modules have taken theirs."""
        rules = list(dict.fromkeys(variant.rule for variant in self.stratum.recursive))
        rules = [rule for rule in rules if rule not in self.choice.handled]
        if self.context.modules and rules:
            rules, added = self.modules.take_over(rules, self.stratum)
            for table in added:
                self.add_member(table)
        self._evaluate_rules(self._as_evaluated(rules))

    def _evaluate_rules(self, rules: Sequence[Rule]) -> None:
        self.runner.forget()
        self.runner.rules = list(rules)
        self.runner.bound_rules += [rule for rule in rules if rule not in self.runner.bound_rules]
        flow_bounds(self.runner.bound_rules, self.database)
        self.recursive = [variant for rule in rules for variant in delta_variants(rule, self.members)]

    def add_member(self, table: Table) -> None:
        """A relation of the stratum's own, which lives as long as the evaluation."""
        self.database.tables[table.name] = table
        self._added.append(table.name)
        self.members |= {table.name}
        self.database.growing = self.members
        self.runner.members = self.members

    def _renew(self) -> None:
        """Everything that is there by now is the first delta."""
        self.modules.close()
        for scheme in self.schemes:
            scheme.renew()
        self._finish_round(1)

    def _settle(self) -> None:
        """Everything is derived and old; what only the evaluation needed is freed."""
        for scheme in self.schemes:
            scheme.settle()
        for table in (*self.tables, *self.nodes.filled):
            if is_node(table.name):
                table.forget_set()  # rules over it only read
            table.forget_indexes()
            table.drop_stale_copy()
            table.rows.trim()

    def _iterate(self) -> None:
        """Rounds until no relation has a delta, or a size limit is reached."""
        last_was_large = False
        while self.context.progress.delta and not self._limit_reached():
            self._place()
            self._reconsider_schemes()
            last_was_large |= self._leave_outgrown_nodes()
            self._consider_splits()
            bodies = self.retrying(lambda: [self.runner.prepare(variant) for variant in self.recursive])
            used = {index for body in bodies for index in body.indexes()}
            for table in self.tables:
                if not is_node(table.name):  # what is reduced first is found by others as well
                    table.keep_indexes(used)
            on_host = self.placement.current.on_host
            simple = on_host and all(body.is_pure and not body.impossible for body in bodies)
            simple &= len(self.tables) == len(self.schemes) and not self.modules.closing
            if simple and not last_was_large and self.context.progress.delta <= SMALL_DELTA:
                if self._run_small_rounds() is Outcome.FIXPOINT:
                    return
                last_was_large = True
            else:
                last_was_large = self._run_round() > SMALL_WORK

    def _run_round(self) -> int:
        """One round driven from here; returns its candidates."""
        work = sum(self.run_variant(variant) for variant in self.recursive if self._has_new(variant))
        self.modules.close()
        for scheme in self.schemes:
            scheme.advance()
        self.retrying(self._index_deltas)
        for table in self.tables:
            table.drop_stale_indexes()
        self._finish_round(1)
        return work

    def _has_new(self, variant: Variant) -> bool:
        """Has the variant anything to start from?"""
        if variant.delta is None:
            return True
        atom = variant.rule.body[variant.delta]
        assert isinstance(atom, Atom)
        scheme = self.database.tables[atom.relation]
        return isinstance(scheme, Union) or scheme.count(Domain.NEW) > 0

    def _reconsider_schemes(self) -> None:
        """Turn a table into a closure if it has come to hold far more than was expected."""
        name = self.choice.reconsider()
        if name is None:
            return
        closure = self.choice.turn_into_closure(name, self.modules.give_back(name))
        rules = list(dict.fromkeys(variant.rule for variant in self.stratum.recursive))
        rules = [rule for rule in rules if rule not in self.choice.handled]
        self._evaluate_rules(self._as_evaluated(self.modules.rewritten(rules)))
        closure.renew()
        self._finish_round(0)

    def _leave_outgrown_nodes(self) -> bool:
        """Go on by join plans where nodes have come to hold far more than was expected; were there any?

        What nodes have not passed on yet is passed on first. Then the rules have seen all combinations of OLD
        facts and none with the delta, as join plans have between two rounds.
        """
        outgrown = self.nodes.outgrown(self.members)
        for node_rules in outgrown:
            over = set(node_rules.over.values())
            for variant in self.recursive:
                if variant.rule in over and self._has_new(variant):
                    self.run_variant(variant)
            self.database.evaluators.join_instead(node_rules, "its nodes outgrew what was expected")
            originals = {evaluated: rule for rule, evaluated in node_rules.over.items()}
            left = [originals.get(rule, rule) for rule in self.runner.rules]
            read = {name for rule in left for name in body_relations(rule.body)}
            gone = {node.head.relation for node in node_rules.nodes} & set(self._added) - read
            self._forget_members(gone)
            self._evaluate_rules([rule for rule in left if rule.head.relation not in gone])
        return bool(outgrown)

    def _forget_members(self, names: set[str]) -> None:
        self._added = [name for name in self._added if name not in names]
        self.members -= names
        self.database.growing = self.runner.members = self.members
        self.runner.bound_rules = [
            rule
            for rule in self.runner.bound_rules
            if not names & {rule.head.relation, *body_relations(rule.body)}
        ]
        for name in names:
            del self.database.tables[name]

    def _index_deltas(self) -> None:
        indexes = [index for table in self.tables for index in table.indexes]
        if self.placement.current.on_host:
            self.context.workers.each(lambda index: index.ensure(), indexes)
        else:
            for index in indexes:
                index.ensure()

    def run_variant(self, variant: Variant) -> int:
        """Evaluate a variant; to do it twice over the same rows adds nothing."""
        return self.retrying(lambda: self.runner.run(variant))

    def retrying(self, action: Callable[[], T]) -> T:
        """Do what can be done again if the accelerator runs out of memory, with more room or on the host."""
        while True:
            try:
                return action()
            except DeviceMemoryError:
                if not self.placement.recover(self._tables_used()):
                    raise

    def _place(self) -> None:
        """Let the stratum move before a round, if it should."""
        if self.placement.is_active:
            delta = self.context.progress.delta
            self.retrying(lambda: self.placement.before_round(self._tables_used(), delta))

    def _tables_used(self) -> list[Table]:
        """The tables that the stratum reads or writes."""
        names = dict.fromkeys(self.members)
        for rule in self.runner.bound_rules:
            names.update(dict.fromkeys([rule.head.relation, *sorted(body_relations(rule.body))]))
        found = (self.database.tables[name] for name in names if name in self.database.tables)
        return [table for table in found if isinstance(table, Table)]

    def _run_small_rounds(self) -> Outcome:
        programs = []
        for variant in self.recursive:
            head = self._table(variant.rule.head)
            programs.append((self.runner.prepare(variant), self._driver_table(variant), head))
        before = [body.candidates for body, _, _ in programs]
        sizes = [len(head) for _, _, head in programs]
        largest = min(SMALL_DELTA, self.placement.largest_host_delta)
        limits = (-1, -1) if self.context.limits else (largest, SMALL_WORK)
        text = self.recursive[0].rule.text
        started = time.perf_counter()
        outcome, rounds = run_small_rounds(
            programs,
            self.tables,
            self.context.stop,
            limits,
            lambda table: self.context.check_budget(table, text),
        )
        # The compiled loop does not time its variants one by one.
        seconds = (time.perf_counter() - started) / len(programs)
        for k, variant in enumerate(self.recursive):
            body, _, head = programs[k]
            derived = len(head) - sizes[k] if len(programs) == 1 else 0
            self.context.note(variant.rule, seconds, body.candidates - before[k], derived)
        self._finish_round(rounds)
        return outcome

    def _driver_table(self, variant: Variant) -> Table:
        assert variant.delta is not None
        atom = variant.rule.body[variant.delta]
        assert isinstance(atom, Atom)
        return self._table(atom)

    def _table(self, atom: Atom) -> Table:
        table = self.database.tables[atom.relation]
        assert isinstance(table, Table)
        return table

    def _finish_round(self, rounds: int) -> None:
        progress = self.context.progress
        name = self.placement.current.name
        self.statistics.rounds[name] = self.statistics.rounds.get(name, 0) + rounds
        self.statistics.moves = self.placement.moves
        progress.rounds += rounds
        progress.round_in_stratum += rounds
        progress.delta = sum(_new(scheme) for scheme in self.schemes)
        self.context.count_facts(exact=False)
        if self.context.stop[0]:
            raise Interrupted("stopped")

    def _limit_reached(self) -> bool:
        limits = self.context.limits
        return any(
            name in limits and len(self.database.tables[name]) >= limits[name]
            for name in self.stratum.relations
        )

    def _consider_splits(self) -> None:
        """Split rules for which the sizes have come to say that it pays off; what remains may split again."""
        rules = list(dict.fromkeys(variant.rule for variant in self.recursive))
        while rules:
            rule = rules.pop()
            if rule.order is BodyOrder.CHEAPEST and self._has_outgrown(rule):
                split = self._find_split(rule)
                if split is not None:
                    self._apply(rule, split)
                    rules.append(split.outer)

    def _find_split(self, rule: Rule) -> Split | None:
        return self.retrying(lambda: find_split(rule, self.members, self.database.tables, self.database))

    def _has_outgrown(self, rule: Rule) -> bool:
        """Are the rule's relations of this stratum large enough to tell, and much larger than last time?"""
        relations = {part.relation for part in rule.body if isinstance(part, Atom)} & self.members
        if not all(isinstance(self.database.tables[name], Table) for name in relations):
            return False
        facts = [len(self.database.tables[name]) for name in relations if name not in self._added]
        if not facts or min(facts) < _KNOWN_FACTS:
            return False
        if sum(facts) < _RECONSIDER_GROWTH * self._considered.get(rule, 0):
            return False
        self._considered[rule] = sum(facts)
        return True

    def _apply(self, rule: Rule, split: Split) -> None:
        """Replace a rule by its split, with the new relation filled from the OLD facts of its atoms.

        This happens between rounds: the rule has seen every combination of OLD facts and none with
        the delta, so the new relation starts with nothing but OLD facts as well.
        """
        name = split.inner.head.relation
        table = Table(name, len(split.inner.head.args), self.placement.current)
        self.add_member(table)
        self.runner.rules.remove(rule)
        self.runner.rules += [split.inner, split.outer]
        self.runner.bound_rules += [split.inner, split.outer]
        flow_bounds(self.runner.bound_rules, self.database)
        old = frozenset(member_positions(split.inner, self.members))
        if all(self._has_old(split.inner.body[position]) for position in old):
            self.run_variant(Variant(split.inner, None, old))
        table.settle()
        self.recursive = [variant for variant in self.recursive if variant.rule != rule]
        self.recursive += delta_variants(split.inner, self.members)
        self.recursive += delta_variants(split.outer, self.members)

    def _has_old(self, literal: Literal) -> bool:
        assert isinstance(literal, Atom)
        return self._table(literal).rows.delta[0] > 0


def _new(scheme: Scheme) -> int:
    """How much is NEW in a relation; a union counts what is its own, or, to begin with, everything."""
    return scheme.news if isinstance(scheme, Union) else scheme.count(Domain.NEW)
