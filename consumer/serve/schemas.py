"""The JSON objects of the HTTP interface, for its OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from calmstream.common.http.answer import MEDIA_TYPE, PROBLEM_TYPE
from calmstream.consumer.serve.problems import KINDS, Problem


class _Schema(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ShortPlan(_Schema):
    """A plan in the list of plans; ``newest`` is its newest final window."""

    name: str
    digest: str
    owner: str
    purpose: str
    method: str
    epsilon: str = Field(description="Privacy loss by one report, a decimal number.")
    newest: int | None


class Plans(_Schema):
    """All plans of this server."""

    plans: list[ShortPlan]


class PrivacyLoss(_Schema):
    """The largest privacy loss of one device, decimal numbers."""

    report: str
    window: str
    year: str
    plan: str


class PlanWindows(_Schema):
    """The windows of a plan; times in seconds since the epoch."""

    seconds: int
    grace: int
    first_start: int
    last_end: int | None


class AttributeLabels(_Schema):
    """An attribute and its labels, in the order of the axes of tables.

    A category has no ``kind``. A number has ``edges``: its labels are, in this order, that of
    values below them, the bins between them (or, with the rounding ``grid``, the edges
    themselves), that of values above them, and that of what is no number.
    """

    name: str
    labels: list[str]
    kind: Literal["ordered", "number", "option"] | None = None
    unit: str = ""
    edges: list[float] = []
    rounding: Literal["bin", "grid"] | None = None
    below: bool = False
    above: bool = False


class PlanTopics(_Schema):
    """Topics that hold the results."""

    snapshots: str
    counts: str


class WholePlan(_Schema):
    """A plan; ``words`` says in sentences what is collected and at what cost."""

    name: str
    digest: str
    owner: str
    purpose: str
    method: str
    epsilon: str
    words: list[str]
    loss: PrivacyLoss
    guarantee: str = Field(description="`once`, or `w-event:W`.")
    windows: PlanWindows
    attributes: list[AttributeLabels]
    published: list[list[str]] = Field(description="Attributes of the published tables.")
    summaries: list[str] = Field([], description="Statistics of the published tables.")
    namespace: str
    topics: PlanTopics


class FinalWindow(_Schema):
    """A final window."""

    window: int
    start: int
    end: int
    reports: int
    rejected: dict[str, int] = Field(description="Rejected records by reason.")
    suspicious: bool = Field(description="Whether the raw counts look forged.")
    withheld: bool = Field(description="Whether its tables are kept back therefore.")
    revision: list[int]


class EarlyWindow(_Schema):
    """The newest counts of a window that is not final."""

    window: int
    reports: int


class PlanWindowList(_Schema):
    """The newest final windows, ascending, and the ranges of windows whose counts are kept."""

    newest: int | None
    kept: list[tuple[int, int]]
    finals: list[FinalWindow]
    early: EarlyWindow | None


class WindowRange(_Schema):
    """The windows of an answer, both ends included."""

    first: int
    last: int
    total: bool
    start: int
    end: int


class TableAnswer(_Schema):
    """A table; cells are row-major, the last attribute varies fastest."""

    plan: str
    attributes: list[str]
    labels: list[list[str]]
    table: list[float]
    stderr: list[float]
    flags: list[str]
    windows: list[WindowRange]
    reports: int
    revision: list[int]


class SeriesWindow(_Schema):
    """A table of one window; ``table`` and ``stderr`` are null where there is none."""

    window: int
    start: int
    end: int
    reports: int
    flags: list[str]
    table: list[float] | None
    stderr: list[float] | None


class SeriesAnswer(_Schema):
    """Tables of single windows, ascending; ``truncated`` if windows had to be left out."""

    attributes: list[str]
    labels: list[list[str]]
    windows: list[SeriesWindow]
    truncated: bool


class StatisticAnswer(_Schema):
    """A statistic with its standard error and 95 % interval; null where nothing is known."""

    statistic: str
    value: float | None
    stderr: float | None
    low: float | None
    high: float | None


class StatisticsRow(_Schema):
    """The statistics within one combination of labels of the given attributes."""

    labels: list[str]
    statistics: list[StatisticAnswer]


class SummaryAnswer(_Schema):
    """Statistics of an attribute, or the rank correlation of two."""

    plan: str
    attributes: list[str]
    unit: str = Field(description="Of the values; empty for labels, which count from 0.")
    given: list[str]
    rows: list[StatisticsRow]
    flags: list[str]
    windows: list[WindowRange]
    reports: int
    revision: list[int]


class PairAnswer(_Schema):
    """How strongly two attributes depend on each other."""

    attributes: tuple[str, str]
    strength: float = Field(description="Cramér's V, 0 to 1, corrected for noise.", ge=0, le=1)
    stderr: float | None = Field(
        description="Of the strength, by the delta method; null unless the pair is dependent."
    )
    p: float | None = Field(description="Of the test of independence; null without a test.")
    verdict: str = Field(description="`dependent` or `undecided`.")


class AssociationAnswer(_Schema):
    """All pairs, and the Chow-Liu tree: edges with their mutual information in nats."""

    windows: list[WindowRange]
    reports: int
    pairs: list[PairAnswer]
    tree: list[tuple[str, str, float]]


class WindowSpan(_Schema):
    """Consecutive windows."""

    first: int
    last: int
    start: int
    end: int


class CellDifference(_Schema):
    """The change of one cell, before anything is corrected."""

    labels: list[str]
    value: float
    stderr: float


class TableChange(_Schema):
    """The test of one table; see docs/changes.md."""

    attributes: list[str]
    covered: bool
    statistic: float | None
    df: int
    p: float | None
    p_adjusted: float | None
    dependence_p: float | None
    method: Literal["chi2", "bootstrap"]
    flags: list[str]
    reason: str
    uncovered: list[list[str]]
    left_out: list[list[str]]
    differences: list[CellDifference]


class ChangesAnswer(_Schema):
    """Tests of all published tables; differences are `window` minus `against`."""

    plan: str
    other_plan: str | None
    window: WindowSpan
    against: WindowSpan
    reports: tuple[int, int]
    flags: list[str]
    tested: int
    changed: int
    smallest_p_adjusted: float
    tables: list[TableChange]


class ProblemDocument(_Schema):
    """Why a request is not fulfilled (RFC 9457)."""

    type: str = Field(examples=[f"{PROBLEM_TYPE}{Problem.NOT_FINAL}"])
    title: str
    status: int
    reason: str = Field(examples=[Problem.NOT_FINAL.value])
    detail: str | None = None


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of problem answers with these and the general statuses."""
    general = {400, 401, 403, 405, 421, 500, 503}
    return {status: _documented(status) for status in sorted(general | set(statuses))}


def _documented(status: int) -> dict[str, Any]:
    titles = [
        f"`{problem}`: {kind.title}" for problem, kind in KINDS.items() if kind.status == status
    ]
    if not titles:
        return {"description": "The answer is still that of `If-None-Match`."}
    schema = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}
    return {"description": " ".join(titles), "content": {MEDIA_TYPE.decode(): {"schema": schema}}}


def with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """Add the schema that all problem answers of an OpenAPI document refer to."""
    schemas = document["components"]["schemas"]
    schemas[ProblemDocument.__name__] = ProblemDocument.model_json_schema()
    return document
