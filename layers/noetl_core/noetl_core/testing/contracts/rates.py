"""Contracts of `RateLimits` and `RequestRates`."""

from __future__ import annotations

import threading

from noetl_core.ports import RateInUse, RateLimits, RequestRates
from noetl_core.values.instants import SECOND

NOW = 1_800_000_000 * SECOND
STEP = SECOND // 5
DAY = 24 * 3600


class RateLimitsContract:
    """Give a fixture `rates`: limits that nobody has used."""

    def test_a_reservation_begins_after_the_reservations_before_it(self, rates: RateLimits) -> None:
        assert rates.reserve("api", STEP, 1, NOW) == NOW
        assert rates.reserve("api", STEP, 10, NOW) == NOW + STEP
        assert rates.reserve("api", STEP, 1, NOW + 3 * STEP) == NOW + 11 * STEP
        assert rates.reserve("other", STEP, 1, NOW) == NOW

    def test_unused_permits_are_not_saved_up(self, rates: RateLimits) -> None:
        rates.reserve("api", STEP, 2, NOW)
        later = NOW + 60 * SECOND
        assert rates.reserve("api", STEP, 1, later) == later
        assert rates.reserve("api", STEP, 1, later) == later + STEP

    def test_a_permit_is_free_from_the_instant_it_becomes_due(self, rates: RateLimits) -> None:
        rates.reserve("api", STEP, 1, NOW)
        assert rates.reserve("api", STEP, 1, NOW + STEP) == NOW + STEP

    def test_users_with_other_intervals_share_the_row(self, rates: RateLimits) -> None:
        rates.reserve("api", STEP, 1, NOW)
        assert rates.reserve("api", 10 * STEP, 1, NOW) == NOW + STEP
        assert rates.reserve("api", STEP, 1, NOW) == NOW + 11 * STEP

    def test_simultaneous_reservations_get_distinct_permits(self, rates: RateLimits) -> None:
        got: list[int] = []
        threads = [threading.Thread(target=lambda: got.append(rates.reserve("api", STEP, 1, NOW))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == [NOW + n * STEP for n in range(20)]

    def test_rates_are_listed_by_their_keys_until_they_are_forgotten(self, rates: RateLimits) -> None:
        rates.reserve("b", STEP, 3, NOW)
        rates.reserve("a/ü", 2 * STEP, 1, NOW)
        assert list(rates.rates(NOW)) == [RateInUse("a/ü", NOW + 2 * STEP, 2 * STEP), RateInUse("b", NOW + 3 * STEP, STEP)]
        assert list(rates.rates(NOW + (2 * DAY) * SECOND)) == []


class RequestRatesContract:
    """Give a fixture `requests`: rates that nobody has used."""

    def test_a_burst_of_requests_is_admitted_then_one_per_interval(self, requests: RequestRates) -> None:
        assert [requests.take("a", STEP, 3, NOW) for _ in range(4)] == [0, 0, 0, STEP]
        assert [requests.take("a", STEP, 3, NOW + STEP) for _ in range(2)] == [0, STEP]
        assert requests.take("a", STEP, 3, NOW + STEP + STEP // 2) == STEP - STEP // 2

    def test_a_refused_request_uses_nothing(self, requests: RequestRates) -> None:
        requests.take("a", STEP, 1, NOW)
        assert {requests.take("a", STEP, 1, NOW) for _ in range(20)} == {STEP}
        assert requests.take("a", STEP, 1, NOW + STEP) == 0

    def test_each_key_has_a_rate_of_its_own(self, requests: RequestRates) -> None:
        assert [requests.take(key, STEP, 1, NOW) for key in ("a/b", "a/ü", "a/b")] == [0, 0, STEP]

    def test_unused_permits_are_kept_up_to_the_burst(self, requests: RequestRates) -> None:
        requests.take("a", STEP, 2, NOW)
        later = NOW + 3 * DAY * SECOND
        assert [requests.take("a", STEP, 2, later) for _ in range(3)] == [0, 0, STEP]

    def test_simultaneous_requests_are_admitted_only_up_to_the_burst(self, requests: RequestRates) -> None:
        waits: list[int] = []
        threads = [threading.Thread(target=lambda: waits.append(requests.take("a", STEP, 5, NOW))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(waits) == [0] * 5 + [STEP] * 15
