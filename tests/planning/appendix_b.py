"""The cyclic rules of the thesis's experiments, appendix B of "Optimising Datalog Materialisations".

A class that the appendix has as an object of rdf:type is a unary relation here, and the rules of Exp derive
one relation instead of the three that describe a Skolem term.
"""

from __future__ import annotations

import re

from gpuengine.language import parse_program
from gpuengine.language.program import Rule

LUBM = """
haveSameAdvisor(p1, p2) :-
    hasAlumnus(o, p1), advisor(p1, advisor), hasAlumnus(o, p2), advisor(p2, advisor).
fromSameCourse(student, teacher) :-
    hasAlumnus(uni, student), takesCourse(student, course), teacherOf(teacher, course),
    hasAlumnus(uni, teacher).
studentHaveAdvisor(student) :-
    member(dep2, student), member(dep1, advisor), subOrganizationOf(dep2, uni),
    subOrganizationOf(dep1, uni), advisor(student, advisor).
studentInSameDepOfAdv(student) :- member(dep, student), advisor(student, advisor), member(dep, advisor).
similarResearchers(p1, p2) :-
    member(org1, p1), degreeFrom(p1, org2), member(org1, p2), degreeFrom(p2, org2).
possibleCollaborators(s1, s2) :-
    researchInterest(s1, int), member(uni, s1), researchInterest(s2, int), member(uni, s2).
studentInDepWhereAdvGotDegree(student) :-
    member(dep, student), subOrganizationOf(dep, org), degreeFrom(advisor, org),
    advisor(student, advisor).
studentGradFromAdvWorks(student) :-
    advisor(student, advisor), degreeFrom(student, uni), member(org, advisor),
    subOrganizationOf(org, uni).
q12xc(X, C), q12au(A, U), q12ay(A, Y) :-
    degreeFrom(X, U), GraduateStudent(X), advisor(X, A), FullProfessor(A), teacherOf(A, C),
    GraduateCourse(C), takesCourse(Y, C), GraduateStudent(Y), hasAlumnus(U, Y).
q13xc(X, C), q13au(A, U) :-
    advisor(X, A), teacherOf(A, C), takesCourse(X, C), headOf(A, D), subOrganizationOf(D, U).
q14GraduateAndTAIn(X, U) :-
    teachingAssistantOf(X, C), teacherOf(H, C), headOf(H, D), subOrganizationOf(D, U), University(U),
    degreeFrom(X, U).
q15GraduateAndTAWhereHeWorks(X, P) :-
    subOrganizationOf(D, U), worksFor(P, D), teacherOf(P, C), teachingAssistantOf(X, C), degreeFrom(X, U),
    Course(C).
q16GraduateAndTakeCourseWhereHeWorks(X, P) :-
    subOrganizationOf(D, U), worksFor(P, D), teacherOf(P, C), takesCourse(X, C), degreeFrom(X, U),
    GraduateCourse(C).
q18WorksForWhereAdvisorGraduate(X, Y) :-
    worksFor(X, Z), subOrganizationOf(Z, U), undergraduateDegreeFrom(Y, U), advisor(Y, X).
q19BSFromAndMemberOf(X, Y) :-
    undergraduateDegreeFrom(X, Y), memberOf(X, Z), subOrganizationOf(Z, Y), GraduateStudent(X),
    Department(Z), University(Y).
q20BSFromAndMemberOf(X, Y) :-
    undergraduateDegreeFrom(X, Y), memberOf(X, Z), subOrganizationOf(Z, Y), UndergraduateStudent(X),
    Department(Z), University(Y).
"""
YAGO = """
Q1x0x1(x0, x1), Q1x2x3(x2, x3) :-
    edge46(x0, x2), edge17(x0, x3), edge46(x1, x0), edge46(x1, x3), edge17(x2, x1), edge17(x2, x3).
Q2x0x1(x0, x1), Q2x2x3(x2, x3), Q2x4x5(x4, x5) :-
    edge0(x0, x5), edge2(x1, x0), edge2(x1, x2), edge25(x2, x3), edge11(x4, x3), edge0(x4, x5).
Q3x0x1(x0, x1), Q3x2x3(x2, x3), Q3x4x5(x4, x5) :-
    edge8(x0, x1), edge11(x2, x1), edge11(x2, x3), edge8(x4, x3), edge2(x5, x0), edge2(x5, x4).
Q4x0x1(x0, x1), Q4x2x3(x2, x3), Q4x4x5(x4, x5) :-
    edge22(x0, x1), edge22(x0, x5), edge17(x1, x2), edge57(x2, x3), edge57(x4, x3), edge17(x4, x5).
Q5x0x1(x0, x1), Q5x2x3(x2, x3), Q5x4x5(x4, x5) :-
    edge8(x0, x1), edge11(x2, x1), edge0(x2, x3), edge0(x4, x3), edge2(x5, x0), edge2(x5, x4).
Q6x0x1(x0, x1), Q6x2x3(x2, x3), Q6x4x5(x4, x5) :-
    edge5(x1, x0), edge54(x1, x2), edge5(x2, x3), edge17(x3, x4), edge5(x5, x0), edge21(x5, x4).
Q7x0x1(x0, x1), Q7x2x3(x2, x3), Q7x4x5(x4, x5) :-
    edge47(x0, x1), edge36(x2, x1), edge50(x2, x3), edge55(x4, x3), edge55(x4, x5), edge29(x5, x0).
Q8x0x1(x0, x1), Q8x2x3(x2, x3), Q8x4x5(x4, x5) :-
    edge25(x0, x1), edge48(x0, x2), edge8(x0, x3), edge48(x0, x4), edge25(x5, x3), edge48(x5, x4).
Q9x0x1(x0, x1), Q9x2x3(x2, x3), Q9x4x5(x4, x5) :-
    edge17(x0, x1), edge21(x2, x0), edge17(x3, x4), edge17(x4, x0), edge17(x5, x0), edge17(x5, x3).
Q10x0x1(x0, x1), Q10x2x3(x2, x3), Q10x4x5(x4, x5) :-
    edge46(x0, x1), edge17(x2, x0), edge5(x3, x4), edge5(x3, x5), edge17(x4, x0), edge17(x5, x0).
Q11x0x1(x0, x1), Q11x2x3(x2, x3), Q11x4x5(x4, x5) :-
    edge17(x0, x1), edge36(x0, x2), edge46(x0, x3), edge46(x0, x4), edge58(x5, x3), edge58(x5, x4).
Q12x0x1(x0, x1), Q12x2x3(x2, x3), Q12x4x5(x4, x5) :-
    edge25(x0, x1), edge2(x2, x0), edge2(x3, x0), edge2(x3, x4), edge2(x5, x0), edge2(x5, x4).
Q13x0x1(x0, x1), Q13x2x3(x2, x3), Q13x4x5(x4, x5) :-
    edge17(x0, x3), edge21(x1, x0), edge21(x2, x0), edge17(x3, x4), edge21(x5, x0), edge5(x5, x4).
Q14x0x1(x0, x1), Q14x2x3(x2, x3), Q14x4x5(x4, x5) :-
    edge31(x0, x2), edge0(x0, x4), edge5(x3, x1), edge36(x3, x2), edge5(x5, x1), edge0(x5, x4).
Q15x0x1(x0, x1), Q15x2x3(x2, x3), Q15x4x5(x4, x5) :-
    edge17(x0, x4), edge39(x1, x3), edge5(x1, x5), edge21(x2, x0), edge39(x2, x3), edge17(x5, x4).
Q16x0x1(x0, x1), Q16x2x3(x2, x3), Q16x4x5(x4, x5) :-
    edge31(x0, x2), edge31(x0, x4), edge5(x3, x1), edge35(x3, x2), edge22(x5, x1), edge35(x5, x4).
Q17x0x1(x0, x1), Q17x2x3(x2, x3), Q17x4x5(x4, x5) :-
    edge17(x0, x2), edge17(x0, x4), edge46(x1, x3), edge58(x2, x3), edge17(x5, x1), edge46(x5, x4).
Q18x0x1(x0, x1), Q18x2x3(x2, x3), Q18x4x5(x4, x5) :-
    edge17(x0, x4), edge17(x1, x3), edge21(x2, x0), edge21(x2, x3), edge17(x4, x5), edge17(x5, x1).
Q19x0x1(x0, x1), Q19x2x3(x2, x3), Q19x4x5(x4, x5) :-
    edge17(x0, x2), edge17(x0, x4), edge5(x3, x1), edge21(x3, x2), edge22(x5, x1), edge21(x5, x4).
"""
YAGO_RECURSIVE = """
edge46(x0, x3), Q1x1x2(x1, x2) :-
    edge46(x0, x2), edge17(x0, x3), edge46(x1, x0), edge46(x1, x3), edge17(x2, x1), edge17(x2, x3).
edge0(x0, x1), Q2x2x3(x2, x3), Q2x4x5(x4, x5) :-
    edge0(x0, x5), edge2(x1, x0), edge2(x1, x2), edge25(x2, x3), edge11(x4, x3), edge0(x4, x5).
edge25(x0, x2), Q3x1x3(x1, x3), Q3x4x5(x4, x5) :-
    edge25(x0, x1), edge48(x0, x2), edge8(x0, x3), edge48(x0, x4), edge25(x5, x3), edge48(x5, x4).
edge31(x0, x1), Q4x2x3(x2, x3), Q4x4x5(x4, x5) :-
    edge31(x0, x2), edge0(x0, x4), edge5(x3, x1), edge36(x3, x2), edge5(x5, x1), edge0(x5, x4).
"""
EXP = "".join(
    f"""
out(s, i, v) :-
    hasType(s, "{kind}"), hasLhs(s, lhs), hasRhs(s, rhs),
    eval(rhs, erhs), value(erhs, vrhs), instance(erhs, i),
    eval(lhs, elhs), value(elhs, vlhs), instance(elhs, i),
    v = vlhs {operator} vrhs.
"""
    for kind, operator in (("Minus", "-"), ("Plus", "+"), ("Times", "*"))
)
NUMBERS = {("value", 1), ("out", 2)}
"""The columns that are numbers; all others are symbols."""


def rules_of(text: str) -> list[Rule]:
    """The rules of a text without declarations, one for each head."""
    arities = {name: args.count(",") + 1 for name, args in re.findall(r"(\w+)\(([^)]*)\)", text)}
    lines = []
    for name, arity in arities.items():
        types = ("number" if (name, i) in NUMBERS else "symbol" for i in range(arity))
        columns = ", ".join(f"c{i}: {kind}" for i, kind in enumerate(types))
        lines.append(f".decl {name}({columns})\n.output {name}\n")
    return list(parse_program("".join(lines) + text).rules)


ALL = [*rules_of(LUBM), *rules_of(YAGO), *rules_of(YAGO_RECURSIVE), *rules_of(EXP)]
