"""Answers about the people with certain labels only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calmstream.consumer.read.answer import Answer


def first_group(answer: Answer, names: Sequence[str]) -> Answer:
    """Return the part of an answer within the first group of labels of given attributes.

    ``group="region=EU"`` makes EU the first group of the region; the attributes in ``names`` are
    among those that were given in the question.
    """
    for name in names:
        axis = answer.attributes.index(name)
        answer = replace(
            answer,
            attributes=answer.attributes[:axis] + answer.attributes[axis + 1 :],
            labels=answer.labels[:axis] + answer.labels[axis + 1 :],
            table=np.take(answer.table, 0, axis),
            stderr=np.take(answer.stderr, 0, axis),
        )
    return answer
