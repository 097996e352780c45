"""The steps of the semi-naive evaluation of one stratum; `fixpoint` has their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from gpuengine.errors import Interrupted
from gpuengine.evaluation.driver.applicability import applicable, can_apply
from gpuengine.evaluation.driver.device_rounds import DeviceRounds
from gpuengine.evaluation.driver.divergence import Divergence
from gpuengine.evaluation.driver.node_tables import StratumNodes
from gpuengine.evaluation.driver.relation_selector import RelationSelector
from gpuengine.evaluation.driver.scheme_choice import StratumSchemes
from gpuengine.evaluation.driver.selectors import make_selectors
from gpuengine.evaluation.driver.small_rounds import Outcome, SmallRounds
from gpuengine.evaluation.driver.table_modules import TableModules
from gpuengine.evaluation.host_work import HostOperation
from gpuengine.evaluation.placement.failures import device_failures
from gpuengine.evaluation.progress import StratumStatistics
from gpuengine.evaluation.rules.body import BodyProgram
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.variants import SMALL_DELTA, VariantRunner
from gpuengine.kernels.contract import DeviceMemoryError, RowIndex
from gpuengine.kernels.cpu.crew import LEAST_SHARE
from gpuengine.kernels.cpu.position_sets import Stopped
from gpuengine.kernels.position_sets import PoolFull
from gpuengine.language.program import Atom, BodyOrder, Literal, Rule
from gpuengine.planning.node_rules import is_node
from gpuengine.planning.plan import Stratum, Variant, body_relations
from gpuengine.planning.split import Split, find_split
from gpuengine.planning.strata import delta_variants, member_positions
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table, as_table, tables_among

SMALL_WORK = 100_000
"""Rounds with fewer candidates than this stay in the compiled loop."""
_MOST_MISSED = 5
"""Where rounds ahead are too large for so many times, they are not tried at each, but every 16th."""
_KNOWN_FACTS = 1000
_RECONSIDER_GROWTH = 4
T = TypeVar("T")


class StratumEvaluation:
    """What `fixpoint` does with the relations of one stratum, step by step.

    `recursive` are the variants that are evaluated in rounds, `delta` is how many facts the last one added.
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
        self.selectors = make_selectors(stratum, self.runner)
        self.runner.selectors = self.selectors
        self._selects_on_device = False
        self._note_selectors()
        recursive = list(dict.fromkeys(variant.rule for variant in stratum.recursive))
        self._divergence = Divergence(recursive, context.plan.selections, self.selectors)
        self.statistics = StratumStatistics(stratum.number, stratum.relations)
        self.delta = 0
        self._added: list[str] = []
        self._considered: dict[Rule, int] = {}
        self._ahead: DeviceRounds | None = None
        self._alone = self._missed = 0

    @contextmanager
    def failing_by_rule(self) -> Iterator[None]:
        """Have errors of the block say by which rule it was deriving, or for which relations."""
        progress = self.context.progress
        with device_failures(lambda: f"deriving by: {progress.rule}", self._tables_used):
            try:
                yield
            except Stopped as error:
                raise Interrupted("stopped") from error
            except PoolFull as error:
                self.context.budget.refuse_sets(", ".join(self.stratum.relations), error.needed)

    def begin(self) -> None:
        """Bring tables where the stratum starts, and choose schemes by the shape of rules."""
        progress = self.context.progress
        progress.placed.append(self.statistics)
        progress.timeline.begin_stratum(self.stratum.number, self.stratum.relations)
        progress.stratum = self.stratum.number + 1
        progress.relations = self.stratum.relations
        progress.round_in_stratum = 0
        progress.rule = self.runner.rules[0].text if self.runner.rules else ""
        self.database.growing = self.members if self.stratum.is_recursive else frozenset()
        on_host = not all(selector.can_leave_host for selector in self.selectors.values())
        self.retrying(lambda: self.placement.begin(self._tables_used(), on_host=on_host))
        backend = self.placement.current
        if self.selectors and not backend.on_host and (backend.calculator is None or not backend.primitives):
            self.placement.begin(self._tables_used(), on_host=True)
        if self.selectors and not self.placement.current.on_host:
            self.selectors.update({name: one.on_device() for name, one in self.selectors.items()})
            self._selects_on_device = True
            self._note_selectors()
        self.choice.begin()
        flow_bounds(self.runner.bound_rules, self.database)
        for table in self.tables:
            table.rows.delta = (0, 0)

    def _note_selectors(self) -> None:
        self.runner.improved = {name: selector.in_rounds for name, selector in self.selectors.items()}

    def _select_on_host(self) -> None:
        """Have selectors of the host go on, if the stratum has left the device."""
        if self._selects_on_device and self.placement.current.on_host:
            self.selectors.update({name: one.leave_device() for name, one in self.selectors.items()})
            self._selects_on_device = False
            self._note_selectors()

    def _each_selector(self, action: Callable[[RelationSelector], None]) -> None:
        for name in self.selectors:
            self.retrying(lambda name=name: action(self.selectors[name]))  # type: ignore[misc]

    def run_once(self) -> None:
        """Run the rules outside the recursion; other schemes are chosen by what they derive."""
        postponed = self.choice.postponed
        self._run_once(rule for rule in self._once_rules() if rule not in postponed)
        self.choice.decide()
        self._run_once(rule for rule in self._once_rules() if rule in postponed)

    def end(self) -> None:
        """Everything is derived and old; what only the evaluation needed is freed."""
        self._each_selector(lambda selector: selector.end())
        self.retrying(self._settle)
        self.modules.end()
        for name in self._added:
            if not is_node(name):
                self.database.tables.pop(name, None)
        self.context.progress.timeline.end_stratum()

    @property
    def has_nodes(self) -> bool:
        """Were nodes of hypertrees made here?"""
        return bool(self.nodes.filled) or any(is_node(name) for name in self._added)

    @property
    def schemes(self) -> list[Scheme]:
        """The relations of the stratum; those that read others come last."""
        schemes = [self.database.tables[name] for name in (*self.stratum.relations, *self._added)]
        return sorted(schemes, key=lambda scheme: scheme.is_view)

    @property
    def tables(self) -> list[Table]:
        """The relations of the stratum that are tables."""
        return tables_among(self.schemes)

    def _once_rules(self) -> list[Rule]:
        return [variant.rule for variant in self.stratum.once if variant.rule not in self.choice.handled]

    def _run_once(self, rules: Iterable[Rule]) -> None:
        for rule in self._as_evaluated(rule for rule in rules if can_apply(rule, self.database)):
            self.run_variant(Variant(rule, None, frozenset()))

    def _as_evaluated(self, rules: Iterable[Rule]) -> list[Rule]:
        """The rules as they are evaluated: over the nodes of a hypertree, if that costs less.

        With them come the rules of nodes that take part in the recursion; the others are filled by now.
        """
        if self.selectors:  # nodes would keep what follows from facts that have gone
            return list(rules)
        result: dict[Rule, None] = {}
        for rule in rules:
            result.update(dict.fromkeys(self.nodes.in_rounds(rule, self)))
            evaluated = self.database.evaluators.evaluated(rule)
            result[evaluated] = None
            self.runner.replace(rule, evaluated)
        return list(result)

    def plan_recursion(self) -> None:
        """The rules that are left to evaluate in rounds, now that schemes and modules have taken theirs.

        Those that nothing can follow from are left out.
        """
        rules = list(dict.fromkeys(variant.rule for variant in self.stratum.recursive))
        rules = [rule for rule in rules if rule not in self.choice.handled]
        if self.context.options.modules and rules and not self.selectors:
            rules, added = self.modules.take_over(rules, self.stratum)
            for table in added:
                self.add_member(table)
        filled = {*self._added, *self.selectors}  # selectors append what they were offered when rounds begin
        self._evaluate_rules(self._as_evaluated(applicable(rules, self.database, filled)))

    def _evaluate_rules(self, rules: Sequence[Rule]) -> None:
        self.runner.forget()
        self.runner.rules = list(rules)
        bound = set(self.runner.bound_rules)
        self.runner.bound_rules += [rule for rule in rules if rule not in bound]
        flow_bounds(self.runner.bound_rules, self.database)
        self.recursive = [variant for rule in rules for variant in delta_variants(rule, self.members)]

    def add_member(self, table: Table) -> None:
        """A relation of the stratum's own, which lives as long as the evaluation."""
        self.database.tables[table.name] = table
        self._added.append(table.name)
        self.members |= {table.name}
        self.database.growing = self.members
        self.runner.members = self.members

    def renew(self) -> None:
        """Everything that is there by now is the first delta."""
        self.modules.close()
        self._each_selector(lambda selector: selector.begin(in_rounds=bool(self.recursive)))
        for scheme in self.schemes:
            self._change(scheme, scheme.renew)
        self._finish_round(1)

    def _settle(self) -> None:
        for scheme in self.schemes:
            scheme.settle()
        for table in (*self.tables, *self.nodes.filled):
            if is_node(table.name):
                table.forget_set()  # rules over it only read
            table.forget_indexes()
            table.drop_stale_copy()
            table.rows.trim()

    def prepare(self) -> list[BodyProgram]:
        """The bodies of the variants, compiled for the sizes at hand."""
        return self.retrying(lambda: self.runner.prepare_all(self.recursive))

    def small_bodies(self, bodies: Sequence[BodyProgram]) -> list[BodyProgram] | None:
        """The bodies as the compiled loop over small rounds takes them; None if it can't, or need not."""
        return self._loop_bodies(bodies) if self.delta <= SMALL_DELTA else None

    def keep_indexes(self, bodies: Iterable[BodyProgram]) -> None:
        """Free the indexes that none of the bodies reads."""
        selecting = [body for selector in self.selectors.values() for body in selector.bodies()]
        used = {index for body in (*bodies, *selecting) for index in body.indexes()}
        for table in self.tables:
            if not is_node(table.name):  # what is reduced first is found by others as well
                table.keep_indexes(used)

    def _loop_bodies(self, bodies: Sequence[BodyProgram]) -> list[BodyProgram] | None:
        """The variants' bodies as the compiled loop takes them, if it can run them all."""
        if not self.placement.current.on_host or len(self.tables) < len(self.schemes) or self.modules.closing:
            return None
        if any(selector.in_rounds() is None for selector in self.selectors.values()):
            return None
        result = []
        for variant, prepared in zip(self.recursive, bodies, strict=True):
            body = self.runner.in_one(variant, prepared)
            if body is None or body.impossible:
                return None
            result.append(body)
        selected = [selector.table for selector in self.selectors.values()]
        # Nobody adds to sets what is selected.
        return None if any(table.has_set for table in selected) else result

    def run_round(self) -> int:
        """One round driven from here; returns its candidates."""
        work = self.derive()
        self._end_round()
        return work

    def derive(self) -> int:
        """Derive what follows from the delta, which stays what it is; returns how many candidates."""
        return sum(self.run_variant(variant) for variant in self.recursive if self._has_new(variant))

    def take_in(self) -> None:
        """What was derived, and what others brought, becomes the delta."""
        flow_bounds(self.runner.bound_rules, self.database)
        self._end_round()

    def _end_round(self) -> None:
        """What was derived becomes the delta."""
        self.modules.close()
        self._each_selector(lambda selector: selector.apply())
        for scheme in self.schemes:
            self._change(scheme, scheme.advance)
        self.retrying(self._index_deltas)
        for table in self.tables:
            table.drop_stale_indexes()
        self._finish_round(1)

    def _has_new(self, variant: Variant) -> bool:
        """Has the variant anything to start from?"""
        if variant.delta is None:
            return True
        atom = variant.rule.body[variant.delta]
        assert isinstance(atom, Atom)
        return self.database.tables[atom.relation].may_have_new

    def reconsider_schemes(self) -> None:
        """Turn a table into a closure if it has come to hold far more than was expected."""
        name = self.choice.reconsider()
        if name is None:
            return
        closure = self.choice.turn_into_closure(name, self.modules.give_back(name))
        rules = list(dict.fromkeys(variant.rule for variant in self.stratum.recursive))
        rules = [rule for rule in rules if rule not in self.choice.handled]
        self._evaluate_rules(self._as_evaluated(self.modules.rewritten(rules)))
        self._change(closure, closure.renew)
        self._finish_round(0)

    def leave_outgrown_nodes(self) -> bool:
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
            staying = [originals.get(rule, rule) for rule in self.runner.rules]
            read = {name for rule in staying for name in body_relations(rule.body)}
            gone = {node.head.relation for node in node_rules.nodes} & set(self._added) - read
            self._forget_members(gone)
            self._evaluate_rules([rule for rule in staying if rule.head.relation not in gone])
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
        if not self.placement.current.on_host:
            for index in indexes:
                index.ensure()
            return
        workers = self.context.workers
        small = [index for index in indexes if _delta_rows(index) < workers.threads * LEAST_SHARE]
        workers.each(lambda index: index.ensure(), small)
        for index in indexes:  # of the others threads share each
            index.ensure()

    def run_variant(self, variant: Variant) -> int:
        """Evaluate a variant; to do it twice over the same rows adds nothing."""
        if not self.placement.current.on_host:
            return self.retrying(lambda: self.runner.run(variant))
        with self.context.progress.host_work.counting(HostOperation.RULES, self._names) as counted:
            counted.rows = self.retrying(lambda: self.runner.run(variant))
        return counted.rows

    @property
    def _names(self) -> str:
        return ", ".join(self.stratum.relations)

    def _change(self, scheme: Scheme, change: Callable[[], int]) -> None:
        """Have what a relation was given become NEW."""
        if scheme.is_listed or scheme.is_view:
            change()
            return
        with self.context.progress.host_work.counting(HostOperation.SCHEME, scheme.name) as counted:
            counted.rows = change()

    def retrying(self, action: Callable[[], T]) -> T:
        """Do what can be done again if the accelerator runs out of memory, with more room or on the host."""
        while True:
            try:
                return action()
            except DeviceMemoryError:
                if not (self._leave_device() or self.placement.recover(self._tables_used())):
                    raise
                self._select_on_host()

    def _leave_device(self) -> bool:
        """Free what a device has copies of to read schemes that are the host's; was there any?"""
        left = [scheme for scheme in self.database.tables.values() if scheme.leave_device()]
        for table in self._tables_used() if left else ():
            table.forget_set()  # it may know of facts that never came to be stored
            table.forget_indexes()
        return bool(left)

    def place(self) -> None:
        """Let the stratum move before a round, if it should."""
        if self.placement.is_active and (self._selects_on_device or not self.selectors):
            self.retrying(lambda: self.placement.before_round(self._tables_used(), self.delta))
            self._select_on_host()

    def _tables_used(self) -> list[Table]:
        """The tables that the stratum reads or writes."""
        names = dict.fromkeys(self.members)
        for rule in self.runner.bound_rules:
            names.update(dict.fromkeys([rule.head.relation, *sorted(body_relations(rule.body))]))
        return tables_among(self.database.tables[name] for name in names if name in self.database.tables)

    def run_small_rounds(self, bodies: Sequence[BodyProgram] | None) -> Outcome:
        """Run rounds while they are small.

        If something is computed that a head does not admit, it does from then on, and the round is run again
        from its beginning, by pipelines that are compiled anew; what it had derived by then is not new.
        """
        while bodies is not None:
            programs = [
                (body, self._driver_table(variant), self._table(variant.rule.head))
                for variant, body in zip(self.recursive, bodies, strict=True)
            ]
            outcome = self._run_loop(
                SmallRounds(programs, self.tables, self.database, self.context.stop, self.selectors)
            )
            if outcome is not Outcome.OUTSIDE:
                return outcome
            bodies = self._loop_bodies(self.runner.prepare_all(self.recursive))
        return Outcome.OUTSIDE

    def _run_loop(self, loop: SmallRounds) -> Outcome:
        before = [body.candidates for body, _, _ in loop.programs]
        sizes = [len(head) for _, _, head in loop.programs]
        largest = min(SMALL_DELTA, self.placement.largest_host_delta)
        limits = (-1, -1) if self.context.plan.size_limits else (largest, SMALL_WORK)
        started = time.perf_counter()
        with self.context.progress.host_work.counting(HostOperation.RULES, self._names) as counted:
            outcome, rounds = loop.run(limits, self._before_growth)
            counted.rows = sum(body.candidates for body, _, _ in loop.programs) - sum(before)
        # The compiled loop does not time its variants one by one.
        seconds = time.perf_counter() - started
        seen = [body.candidates - then for (body, _, _), then in zip(loop.programs, before, strict=True)]
        self._note_rounds(self.recursive, seconds, seen, sizes)
        if outcome is Outcome.OUTSIDE:
            self.runner.admit_row(self.recursive[loop.suspended], loop.row_outside())
        self._finish_round(rounds)
        if outcome is Outcome.UNTOLD:
            self._end_round()
        return outcome

    def _note_rounds(
        self, variants: Sequence[Variant], seconds: float, seen: Sequence[int], sizes: Sequence[int]
    ) -> None:
        """Note what variants did together: the candidates of each, and how large its head was before."""
        rules: dict[str, set[str]] = {}
        for variant in variants:
            rules.setdefault(variant.rule.head.relation, set()).add(variant.rule.text)
        told: set[str] = set()
        for variant, candidates, size in zip(variants, seen, sizes, strict=True):
            name = variant.rule.head.relation
            # Else nobody knows by which of them a fact came first, or which are selected.
            is_counted = len(rules[name]) == 1 and name not in self.selectors
            derived = len(self._table(variant.rule.head)) - size if is_counted and name not in told else 0
            told.add(name)
            uncounted = 0 if is_counted else candidates
            self.context.note(variant.rule, seconds / len(variants), candidates, derived, uncounted=uncounted)

    def rounds_ahead(self, bodies: Sequence[BodyProgram]) -> DeviceRounds | None:
        """The variants as a device runs many rounds of them before it is waited for; None if it can't."""
        if self._alone:
            self._alone -= 1
            return None
        if self._ahead is None or not self._ahead.is_of(self.recursive, bodies):
            self._ahead = self._find_ahead(bodies)
        return self._ahead

    def _find_ahead(self, bodies: Sequence[BodyProgram]) -> DeviceRounds | None:
        backend = self.placement.current
        if backend.on_host or len(self.tables) < len(self.schemes) or self.modules.closing or self.selectors:
            return None
        if self.context.plan.size_limits or any(table.indexes for table in self.tables):
            return None
        pipelines = []
        for variant, body in zip(self.recursive, bodies, strict=True):
            starts_with_delta = body.body_plan.steps[0].position == variant.delta
            if not body.is_pure or body.impossible or variant.delta is None or not starts_with_delta:
                return None
            pipelines.append((body.stages[0].pipeline, self._table(variant.rule.head).rows))
        ahead = backend.rounds_ahead(pipelines)
        return None if ahead is None else DeviceRounds(ahead, self.recursive, bodies)

    def run_ahead(self, ahead: DeviceRounds) -> None:
        """Have the device run rounds; one that had no room, or is too large, is next and runs alone."""
        heads = [self._table(variant.rule.head) for variant in ahead.variants]
        before, sizes = ahead.candidates, [len(head) for head in heads]
        started = time.perf_counter()
        is_complete, rounds = True, 0

        def run() -> None:
            nonlocal is_complete, rounds
            if ahead.is_current:  # else there was no memory, and tables are elsewhere or made anew
                is_complete, rounds = ahead.run(heads, self.delta, self._before_growth)

        self.retrying(run)
        seen = [now - then for now, then in zip(ahead.candidates, before, strict=True)]
        self._note_rounds(ahead.variants, time.perf_counter() - started, seen, sizes)
        self._missed = 0 if rounds else self._missed + 1
        self._alone = 1 << min(self._missed, _MOST_MISSED) >> 1 if is_complete else 1
        self._finish_round(rounds)

    def _before_growth(self, number: int) -> None:
        """The variant of that number needs more room, for its head or for what it computes."""
        rule = self.recursive[number].rule
        self.context.progress.rule = rule.text
        self.context.check_budget(self._table(rule.head), rule.text)

    def _driver_table(self, variant: Variant) -> Table:
        assert variant.delta is not None
        atom = variant.rule.body[variant.delta]
        assert isinstance(atom, Atom)
        return self._table(atom)

    def _table(self, atom: Atom) -> Table:
        return as_table(self.database.tables[atom.relation])

    def _finish_round(self, rounds: int) -> None:
        progress = self.context.progress
        name = self.placement.current.name
        self.statistics.rounds[name] = self.statistics.rounds.get(name, 0) + rounds
        self.statistics.moves = self.placement.moves
        first = progress.round_in_stratum
        progress.rounds += rounds
        progress.round_in_stratum += rounds
        progress.delta = self.delta = sum(scheme.own_news for scheme in self.schemes)
        progress.timeline.end_rounds(first, rounds, self.delta, name)
        if self.delta:
            self._divergence.note(rounds, self.schemes)
        self.context.count_facts(exact=False)
        if self.context.stop[0]:
            raise Interrupted("stopped")

    @property
    def is_limited(self) -> bool:
        """Has a relation as many facts as it may have?"""
        limits = self.context.plan.size_limits
        return any(
            name in limits and len(self.database.tables[name]) >= limits[name]
            for name in self.stratum.relations
        )

    def consider_splits(self) -> None:
        """Split rules for which the sizes have come to say that it pays off; what remains may split again."""
        rules = [] if self.selectors else list(dict.fromkeys(variant.rule for variant in self.recursive))
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
        if not all(self.database.tables[name].is_listed for name in relations):
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


def _delta_rows(index: RowIndex) -> int:
    start, end = index.rows.delta
    return end - start
