"""Predictions against servers that are simulated token by token, and against rows whose law is known."""

import random
from typing import Any

import pytest
from bench_rows import FIXED, FORWARD, OUTPUT, PLAIN, PREFILL, TOKEN, entry, row
from hypothesis import given, settings
from hypothesis import strategies as st

from draftwire.bench.costs import take_apart, tree_must_accept
from draftwire.bench.prediction import (
    Point,
    Prediction,
    acceptance,
    find_crossover,
    is_within,
    line,
    predict,
    predict_speed,
    rank,
    read_points,
)
from draftwire.bench.refusals import BenchError


class Text:
    """A text whose places are easy or hard to draft, in stretches; a draft gets worse the deeper it drafts."""

    def __init__(self, seed: int, easy: float, hard: float, drift: float, length: int = 60_000):
        dice = random.Random(seed)
        self.luck = [dice.random() for _ in range(length + 64)]
        self.chance, state = [], easy
        for _ in self.luck:
            state = state if dice.random() < 0.9 else (hard if state == easy else easy)
            self.chance.append(state)
        self.drift, self.length = drift, length

    def serve(self, steps: int) -> tuple[float, list[float]]:
        """(tokens a second, c_1 to c_steps) of a server that walks the whole text in requests of OUTPUT tokens."""
        at, windows, counts = 0, 0, [0] * (steps + 1)
        while at < self.length:
            right = 0
            while right < steps and self.luck[at + right] < self.chance[at + right] * self.drift**right:
                right += 1
            counts[right] += 1
            windows += 1
            at += right + 1
        step = PLAIN + FIXED + FORWARD * steps + TOKEN * steps
        decode = windows * step * (OUTPUT - 1) / at
        return 1000 * OUTPUT / (PREFILL + decode), [sum(counts[j:]) / windows for j in range(1, steps + 1)]

    def measured(self, *steps: int) -> dict[str, Any]:
        plain = entry("baseline", None, 1000 * OUTPUT / (PREFILL + (OUTPUT - 1) * PLAIN))
        served = {k: self.serve(k) for k in steps}
        return row(plain, *(entry("eagle3", k, s, accept_positions=c) for k, (s, c) in served.items()))


@pytest.mark.parametrize("easy, hard, drift", [(0.8, 0.8, 1), (0.95, 0.4, 1), (0.95, 0.4, 0.9), (0.99, 0.1, 0.97)])
def test_two_step_counts_predict_the_others(easy: float, hard: float, drift: float) -> None:
    text = Text(1, easy, hard, drift)
    for prediction in predict(*read_points(text.measured(1, 5)), 5):
        speed, _ = text.serve(prediction.steps)
        assert prediction.tok_s == pytest.approx(speed, rel=0.03), prediction
        assert not prediction.extrapolated


def test_acceptance_falls_with_more_steps_where_a_text_has_easy_stretches() -> None:
    """Why c_1 of one step count is not the other's: shorter windows start inside easy stretches more often."""
    even, uneven = Text(2, 0.8, 0.8, 1), Text(2, 0.99, 0.2, 1)
    assert even.serve(1)[1][0] == pytest.approx(even.serve(5)[1][0], abs=0.01)
    assert uneven.serve(1)[1][0] > uneven.serve(5)[1][0] + 0.1


def test_beyond_what_was_measured_a_prediction_is_marked_and_still_near() -> None:
    text = Text(3, 0.8, 0.8, 1)
    found = {p.steps: p for p in predict(*read_points(text.measured(1, 3)), 6)}
    assert [steps for steps, p in found.items() if p.extrapolated] == [4, 5, 6]
    assert found[5].tok_s == pytest.approx(text.serve(5)[0], rel=0.05)


def test_a_line_that_falls_is_not_followed_under_the_plain_step() -> None:
    """Two runs of which the deeper had the cheaper step: further steps cost no less than one without a draft."""
    points = [Point(1, 1, 60.0, 60.0, 60.0, 0.0, 101, (0.5,)), Point(1, 3, 200.0, 200.0, 200.0, 0.0, 101, (0.5,) * 3)]
    slow, fast = (point.step(point.tok_s) for point in points)
    floor = 12.0
    assert slow > floor and fast + 4 * (fast - slow) / 2 < floor
    length = 1 + sum(acceptance(points, 7))
    said = predict_speed(points, 7, floor=floor)
    assert said == pytest.approx(1000 * 101 / (100 * min(floor, fast) / length))
    plain = Point(1, 0, *[1010 / floor] * 3, 0.0, 101)
    assert predict([plain], points, 7)[-1].tok_s == pytest.approx(said)


shares = st.lists(st.floats(0, 1), min_size=6, max_size=6).map(lambda c: sorted(c, reverse=True))
speeds = st.floats(5, 80)


@given(shares, shares, speeds, speeds, st.integers(1, 4))
def test_what_was_measured_is_predicted_as_measured(c: list, d: list, slow: float, fast: float, least: int) -> None:
    few = Point(2, least, slow, slow, slow, 60, 200, tuple(c[:least]))
    points = [few, Point(2, 6, fast, fast, fast, 50, 180, tuple(d))]
    assert predict_speed(points, least) == pytest.approx(slow)
    assert predict_speed(points, 6) == pytest.approx(fast)


@given(shares, shares, st.integers(1, 5), st.integers(1, 12))
def test_acceptance_never_rises_with_the_position(c: list, d: list, least: int, steps: int) -> None:
    points = [Point(1, least, 9, 9, 9, 1, 99, tuple(c[:least])), Point(1, 6, 9, 9, 9, 1, 99, tuple(d))]
    found = acceptance(points, steps)
    assert len(found) == steps
    assert all(0 <= later <= earlier <= 1 for earlier, later in zip([1, *found], found, strict=False))


@settings(max_examples=50)
@given(st.floats(0.3, 0.95), st.floats(0, 30), st.floats(0.1, 10), st.integers(1, 16))
def test_a_line_of_costs_and_even_acceptance_are_recovered_exactly(
    share: float, fixed: float, slope: float, concurrency: int
) -> None:
    def speed(steps: int) -> float:
        decode = (OUTPUT - 1) * (PLAIN + fixed + slope * steps) / sum(share**j for j in range(steps + 1))
        return 1000 * concurrency * OUTPUT / (PREFILL + decode)

    chains = [
        entry("eagle3", k, speed(k), concurrency, accept_positions=[share**j for j in range(1, k + 1)]) for k in (1, 4)
    ]
    found = predict(*read_points(row(entry("baseline", None, 10.0, concurrency), *chains)), 8)
    assert [p.tok_s for p in found] == pytest.approx([speed(k) for k in range(1, 9)])
    assert [p.gain for p in found] == pytest.approx([speed(k) / 10 for k in range(1, 9)])
    assert all(p.low < p.tok_s < p.high for p in found)


def test_costs_come_apart_where_the_baseline_was_measured_at_the_batch() -> None:
    """P(b) = 20 + 0.4 (b - 1), a draft forward 1.5 and 3 for the rest: what the rows were made of is found again."""

    def plain(b: int) -> float:
        return PLAIN + TOKEN * (b - 1)

    def point(b: int, k: int) -> Point:
        step = plain(b * (k + 1)) + FORWARD * k + FIXED if k else plain(b)
        c = tuple(0.7**j for j in range(1, k + 1))
        speed = 1000 * b * OUTPUT / (PREFILL + (OUTPUT - 1) * step / (1 + sum(c)))
        return Point(b, k, speed, speed, speed, PREFILL, OUTPUT, c)

    baseline = [point(b, 0) for b in (1, 4, 8)]
    costs = take_apart(baseline, [point(1, 1), point(1, 5)], 1)
    assert costs[:4] == pytest.approx((1, 20, 1.9, 5))
    assert costs[4:] == pytest.approx((22, 1.5, 3))
    wide = take_apart(baseline, [point(4, 2), point(4, 5)], 4)
    assert wide.another_step == pytest.approx(4 * TOKEN + FORWARD) and wide.plain == pytest.approx(21.2)
    assert wide[3:] == (None, None, None, None), "no baseline at 12: not guessed"
    assert take_apart(baseline, [point(4, 1), point(4, 5)], 4)[3:] == (None,) * 4, "one count tells no draft step"
    bent = [point(1, 1), point(1, 3), point(1, 5)._replace(tok_s=30.0)]
    assert take_apart([point(b, 0) for b in (1, 4)], bent, 1)[3:] == pytest.approx((3, 21.2, 1.5, 3))


def test_a_tree_must_accept_what_makes_up_for_its_cost() -> None:
    """The same tokens a second from a simulated chain and a tree whose step is a fifth dearer."""
    must = tree_must_accept(2.5, 30.0, 6.0)
    chain = Point(1, 3, 80, 80, 80, PREFILL, OUTPUT, (0.7, 0.5, 0.3))
    tree = chain._replace(positions=(must - 1, 0, 0))
    assert must > 2.5 and tree.step(80) / chain.step(80) == pytest.approx(36 / 30)


places = st.lists(st.tuples(st.integers(0, 9), st.floats(0, 9)), min_size=2, max_size=5, unique_by=lambda p: p[0])


@given(places)
def test_a_line_goes_through_its_points(points: list) -> None:
    points = sorted(points)
    assert [line(points, x) for x, _ in points] == pytest.approx([y for _, y in points], abs=1e-6)


@pytest.mark.parametrize(
    "gains, said",
    [
        ([(1, 1.5), (4, 1.2), (32, 1.1)], "not within 1..32"),
        ([(1, 1.2), (4, 0.995)], "at 3.9 (interpolated within 1..4)"),
        ([(1, 2.0), (4, 0.5)], "at 2.0 (interpolated within 1..4)"),
        ([(32, 0.9), (16, 1.0), (1, 1.4)], "at 16 (interpolated within 1..32)"),
        ([(1, 0.9), (4, 1.2)], "does not pay at 1 already"),
        ([(1, 1.4)], "only 1 measured"),
    ],
)
def test_where_speculation_stops_paying(gains: list, said: str) -> None:
    assert str(find_crossover(gains)) == said


def test_of_equals_the_fewer_steps() -> None:
    found = [Prediction(1, k, s, s, s, 1, 2, False) for k, s in ((3, 50.0), (2, 50.0), (5, 60.0), (1, 10.0))]
    assert [p.steps for p in rank([*found, found[0]._replace(concurrency=4, tok_s=99)], 1)] == [5, 2, 3, 1]


def test_within_is_a_tenth_or_the_spread() -> None:
    assert is_within(91, 100, 99, 101) and is_within(109, 100, 99, 101) and is_within(75, 100, 70, 104)
    assert not is_within(89, 100, 95, 140) and not is_within(141, 100, 95, 140)
    assert not is_within(111, 100, 99, 101)


CHAINS = entry("eagle3", 1, 50.0, accept_positions=[0.7]), entry("eagle3", 5, 60.0, accept_positions=[0.7, 0.5])


def test_a_histogram_that_ends_early_has_zeros_behind_it() -> None:
    _, drafted = read_points(row(entry("baseline", None, 40.0), *CHAINS))
    assert drafted[1].positions == (0.7, 0.5, 0, 0, 0)


@pytest.mark.parametrize(
    "measurements, expected, found",
    [
        (CHAINS, "a baseline", "found none"),
        ((entry("baseline", None, 40.0), CHAINS[0]), "two step counts", r"found \[1\]"),
        ((entry("baseline", None, 40.0),), "two step counts", "found none"),
        ((entry("baseline", None, 40.0, 8), *CHAINS), "two step counts", "found none"),
        ((entry("baseline", None, 40.0), CHAINS[0] | {"topk": 2}, CHAINS[1]), "two step counts", r"found \[5\]"),
        ((entry("baseline", None, 40.0), CHAINS[0] | {"accept_positions": None}, CHAINS[1]), "accept_pos", "none"),
        ((entry("baseline", None, 40.0), CHAINS[0] | {"refused": "9 failed requests"}), "compared", "9 failed"),
        ((entry("baseline", None, 40.0, mean_output_tokens=1.0), *CHAINS), "time left", "1.0 tokens"),
        ((entry("baseline", None, 40.0), *CHAINS, entry("eagle3", 3, 9e9, accept_positions=[0.5])), "time left", "9"),
    ],
)
def test_refused_in_one_line(measurements: tuple, expected: str, found: str) -> None:
    with pytest.raises(BenchError, match=f"expected .*{expected}.*{found}.* in the row of 2026-11-30") as caught:
        read_points(row(*measurements))
    assert "\n" not in str(caught.value)


def test_fixed_length_and_other_arms_are_left_out() -> None:
    others = entry("mtp", 1, 9.0, accept_positions=[0.1]), entry("eagle3", 3, 9.0, length="fixed", accept_positions=[0])
    plain, drafted = read_points(row(entry("baseline", None, 40.0), *CHAINS, *others))
    assert [p.steps for p in plain] == [0] and [p.steps for p in drafted] == [1, 5]
