"""Which requests are attended together."""

from collections.abc import Iterator

GATHERED = 1 << 20  # float32 elements of keys and values at once; beyond some 4 MiB one by one was faster


def seen(length: int, new: int, window: int) -> int:
    """How many of a request's `length` tokens its last `new` tokens see; a window of 0 or less is none."""
    return min(length, window + new - 1) if window > 0 else length


def parts(lens: list[int], new: list[int], starts: list[int], row: int, window: int) -> Iterator[tuple[slice, int]]:
    """Runs of neighbouring requests to attend at once, each with the most tokens that one of them sees.

    lens, new, starts: per request its length, how many of its last tokens are queries, and the first one's row.
    row: elements of one token's key and value. In a run all requests have equally many queries, whose rows adjoin;
    all have a cached prefix or none has; and padded to the longest they hold at most GATHERED elements, unless it is
    a single request.
    """
    begin, width = 0, 0
    for i, length in enumerate(lens):
        own = seen(length, new[i], window)
        if i > begin and not (
            new[i] == new[begin]
            and (length == new[i]) == (lens[begin] == new[begin])
            and starts[i] == starts[i - 1] + new[i]
            and (i + 1 - begin) * max(width, own) * row <= GATHERED
        ):
            yield slice(begin, i), width
            begin, width = i, 0
        width = max(width, own)
    if lens:
        yield slice(begin, len(lens)), width
