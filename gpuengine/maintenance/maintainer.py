"""Keep a materialisation true: facts come and go, stratum by stratum, all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from gpuengine.errors import Interrupted, MemoryBudgetError
from gpuengine.evaluation.rules.context import Context
from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.position_sets import Stopped
from gpuengine.kernels.position_sets import PoolFull
from gpuengine.language.program import Rule
from gpuengine.maintenance import names
from gpuengine.maintenance.delta import Delta, Deltas
from gpuengine.maintenance.recomputed import RecomputedStratum
from gpuengine.maintenance.rules import stratum_rules
from gpuengine.maintenance.stated import StatedFacts
from gpuengine.maintenance.stratum import StratumMaintenance
from gpuengine.maintenance.update_deltas import UpdateDeltas
from gpuengine.planning.node_rules import is_node
from gpuengine.planning.plan import Plan, body_relations
from gpuengine.schemes.table import Table, as_table


class Maintainer:
    """Maintains one materialisation of one plan; the schemes that relations have stay as they are.

    The materialisation is complete and settled before and after `update`, also if that fails.
    """

    def __init__(self, plan: Plan, context: Context, stated: StatedFacts) -> None:
        self.plan = plan
        self.context = context
        self.database = context.database
        self.stated = stated
        self._derived = {name: k for k, stratum in enumerate(plan.strata) for name in stratum.relations}
        before = set(self.database.tables)
        try:
            context.placement.bring(self._all_tables())
            self._unshare()
            self._list_recursive_unions()
            for table in self.database.all_tables():
                table.maintained = True
                table.settle()
            self.database.evaluators.add(plan.program.rules)
            self.strata: list[StratumMaintenance] = []
            for number in range(len(plan.strata)):
                self.strata.append(self._stratum(number))
        except BaseException:
            for name in set(self.database.tables) - before:
                del self.database.tables[name]
            raise

    def _stratum(self, number: int) -> StratumMaintenance:
        """A stratum with the nodes of hypertrees that its rules read; without, if these do not fit."""
        before = set(self.database.tables)
        try:
            stratum = self._stratum_over_nodes(number)
            for rule in stratum.rules.rules:
                if is_node(rule.head.relation) and rule.head.relation not in before:
                    self.context.check_budget(stratum.tables.table(rule.head.relation), rule.text)
            return stratum
        except MemoryBudgetError as error:
            if not self._let_go_of_nodes(number, str(error)):
                raise
            for name in set(self.database.tables) - before:
                del self.database.tables[name]
            return self._stratum_over_nodes(number)

    def _let_go_of_nodes(self, number: int, why: str) -> bool:
        """Have the rules of a stratum maintained by join plans; False if they are already."""
        stratum, evaluators = self.plan.strata[number], self.database.evaluators
        rules = [variant.rule for variant in (*stratum.once, *stratum.recursive)]
        below = {name for lower in self.strata for name in lower.rules.tables}
        has_any = False
        for rule in rules:
            node_rules = evaluators.choices[rule].node_rules
            own = (
                {node.head.relation for node in node_rules.nodes} - below if node_rules is not None else set()
            )
            if node_rules is not None and own:
                evaluators.join_instead(node_rules, why)
                for name in own:
                    self._forget_node(name)
                has_any = True
        return has_any

    def _stratum_over_nodes(self, number: int) -> StratumMaintenance:
        stratum, evaluators = self.plan.strata[number], self.database.evaluators
        planned = self.plan.selections
        selections = [planned[name] for name in stratum.relations if name in planned]
        for variant in (*stratum.once, *stratum.recursive):
            choice = evaluators.choose(variant.rule, stratum.relations, self.database)
            if selections and choice.node_rules is not None:
                evaluators.join_instead(choice.node_rules, "nodes would keep what has gone again")
        rules = stratum_rules(
            stratum,
            self.plan.program,
            self.database.tables,
            self.plan.schemes,
            evaluators,
            self.plan.selections,
            modules=self.context.options.modules,
            below=frozenset(name for lower in self.strata for name in lower.rules.tables),
        )
        above = [variant.rule for later in self.plan.strata[number + 1 :] for variant in later.once]
        above += [variant.rule for later in self.plan.strata[number + 1 :] for variant in later.recursive]
        read = frozenset().union(*(body_relations(rule.body) for rule in above))
        if not all(selection.folds for selection in selections):  # what stays depends on the order of rounds
            return RecomputedStratum(stratum, rules, self.context, self.stated, read_above=read)
        return StratumMaintenance(rules, self.context, self.stated, read_above=read)

    def _unshare(self) -> None:
        """A relation that may hold more than what is stated for it needs a table of its own."""
        for name in {*self._derived, *(alias.of for alias in self.stated.aliases.values())}:
            stated = self.stated.tables[name]
            if self.database.tables[name] is stated:
                copy = Table(name, stated.arity, stated.backend)
                copy.restore(stated.rows.device_columns(), len(stated))
                self.database.tables[name] = copy

    def _list_recursive_unions(self) -> None:
        """A union that its own stratum reads becomes a table: what goes from one part but not from another
        has to be overdeleted, as the other may have it by the union itself.
        """
        for stratum in self.plan.strata:
            for name in stratum.relations if stratum.is_recursive else ():
                union = self.database.tables[name]
                if union.is_view:
                    listed = Table(name, union.arity, self.context.placement.current)
                    for batch in union.scan():
                        listed.insert(batch, len(batch[0]))
                        self.context.budget.check_answers(len(listed), union.arity)
                    self.database.tables[name] = listed

    def _all_tables(self) -> list[Table]:
        """Every table, of what is derived and of what is stated, once."""
        tables = (*self.database.all_tables(), *self.stated.tables.values())
        return list({id(table): table for table in tables}.values())

    @property
    def rules(self) -> list[Rule]:
        """All rules as they are maintained."""
        return [rule for stratum in self.strata for rule in stratum.rules.rules]

    def update(
        self, asked: Deltas, *, removed: Sequence[Rule] = (), added: Sequence[Rule] = ()
    ) -> UpdateDeltas:
        """State other facts, and derive what follows; the net change of every relation.

        `removed` are maintained rules that held until now and are no longer among `rules`, `added` those of
        `rules` that did not hold. On failure everything is as before.
        """
        deltas = UpdateDeltas(self.database.tables)
        begun = 0
        if self.context.placement.is_active:  # readers may have brought some to the host
            self.context.placement.bring(self._all_tables())
        for stratum in self.strata:
            stratum.count(added)
        try:
            stated = self.stated.apply(asked)
            self._change_underived(deltas, stated)
            self.context.progress.strata = len(self.strata)
            for begun, stratum in enumerate(self.strata, 1):
                tables, entries = stratum.rules.tables, stratum.rules.entries
                self.context.progress.stratum = begun
                self.context.progress.relations = stratum.rules.relations
                stratum.run(
                    deltas,
                    {name: delta for name, delta in stated.items() if name in entries},
                    [rule for rule in removed if rule.head.relation in tables],
                    [rule for rule in added if rule.head.relation in tables],
                )
        except BaseException as error:
            if isinstance(error, DeviceMemoryError):
                self._retreat()
            self._undo(deltas, begun)
            if isinstance(error, Stopped):
                raise Interrupted("stopped") from error
            if isinstance(error, PoolFull):
                names = ", ".join(self.strata[begun - 1].rules.relations)
                self.context.budget.refuse_sets(names, error.needed)
            raise
        finally:
            self.context.last_reduction = None
        if removed:
            self._forget_nodes()  # nodes that only those had did not follow, and others may want them next
        return deltas

    def _change_underived(self, deltas: UpdateDeltas, stated: Deltas) -> None:
        """Relations without rules hold what is stated, most of them in the same table."""
        for name, delta in stated.items():
            if name in self._derived:
                continue
            table = as_table(self.database.tables[name])
            if table is not self.stated.tables[name]:
                delta = _stated_too(table, delta)
            deltas.add(table, delta, at_end=True)

    def revert(self, deltas: UpdateDeltas) -> None:
        """Take back an update that was completed."""
        self._undo(deltas, len(self.strata) + 1)

    def forget_others(self) -> None:
        """Free the tables that feed relations with other rules; with those they would be made anew."""
        self._forget_nodes()
        hidden = self.hidden
        for name in [name for name in self.database.tables if names.feeds(name)]:
            if name not in hidden:
                del self.database.tables[name]

    def _retreat(self) -> None:
        """Go on on the host: the device's memory has ended, perhaps in the middle of something."""
        self.context.placement.current = CPU
        for table in self._all_tables():
            table.retreat()

    def _forget_nodes(self) -> None:
        """Free the nodes of hypertrees that are not maintained."""
        kept = {name for stratum in self.strata for name in stratum.rules.hidden}
        for name in [name for name in self.database.tables if is_node(name) and name not in kept]:
            self._forget_node(name)

    def _forget_node(self, name: str) -> None:
        self.database.tables.pop(name, None)
        self.context.counter_bytes.pop(names.counters(name), None)

    @property
    def hidden(self) -> list[str]:
        """The tables, unknown to the program, without which its relations are not complete."""
        tables = (name for stratum in self.strata for name in stratum.rules.hidden)
        return [name for name in tables if not is_node(name)]

    def _undo(self, deltas: UpdateDeltas, begun: int) -> None:
        """Bring back what there was: first the stratum that failed, then what stood for the others."""
        if 0 < begun <= len(self.strata) and self.strata[begun - 1].is_running:
            failed = self.strata[begun - 1]
            deltas.forget((*failed.rules.tables, *failed.rules.relations))
            failed.undo()
        deltas.undo(self.stated.tables)
        for stratum in self.strata[: max(begun - 1, 0)]:
            stratum.tables.rebuild_schemes(deltas)
        self.stated.undo()
        for stratum in self.strata:
            stratum.forget_counts()


def _stated_too(table: Table, delta: Delta) -> Delta:
    """Have a table of its own lose and gain what is stated; what changed. If it fails, nothing has."""
    kept: int | None = None
    try:
        if delta.may_lose:
            table.delete(*delta.minus_facts)
            table.take_back()
        kept = len(table)
        table.insert(*delta.plus_facts)
        come = table.between(kept, len(table)), len(table) - kept
        table.take_in()
    except BaseException as error:
        table.settle()
        if isinstance(error, DeviceMemoryError):
            table.retreat(kept)
            if kept is not None:
                table.insert(*delta.minus_facts)
                table.take_in()
        elif kept is not None:
            come = table.between(kept, len(table)), len(table) - kept
            table.delete(*come)
            table.take_back()
            table.insert(*delta.minus_facts)
            table.take_in()
        raise
    return Delta.listed(table.name, table.arity, delta.minus_facts, come)
