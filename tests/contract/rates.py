"""Contract of `RateLimits`."""

from __future__ import annotations

import threading

from noetl_core.ports import RateInUse, RateLimits
from noetl_core.values.instants import SECOND

NOW = 1_800_000_000 * SECOND
STEP = SECOND // 5
DAY = 24 * 3600


class RateLimitsContract:
    """Give a fixture `rates`: limits that nobody has used."""

    def test_what_is_reserved_follows_what_was_reserved_before(self, rates: RateLimits) -> None:
        assert rates.reserve("api", STEP, 1, NOW) == NOW
        assert rates.reserve("api", STEP, 10, NOW) == NOW + STEP
        assert rates.reserve("api", STEP, 1, NOW + 3 * STEP) == NOW + 11 * STEP
        assert rates.reserve("other", STEP, 1, NOW) == NOW

    def test_what_nobody_used_is_not_saved_up(self, rates: RateLimits) -> None:
        rates.reserve("api", STEP, 2, NOW)
        later = NOW + 60 * SECOND
        assert rates.reserve("api", STEP, 1, later) == later
        assert rates.reserve("api", STEP, 1, later) == later + STEP

    def test_at_the_instant_at_which_it_is_free_it_is_free(self, rates: RateLimits) -> None:
        rates.reserve("api", STEP, 1, NOW)
        assert rates.reserve("api", STEP, 1, NOW + STEP) == NOW + STEP

    def test_users_with_other_intervals_share_the_row(self, rates: RateLimits) -> None:
        rates.reserve("api", STEP, 1, NOW)
        assert rates.reserve("api", 10 * STEP, 1, NOW) == NOW + STEP
        assert rates.reserve("api", STEP, 1, NOW) == NOW + 11 * STEP

    def test_many_at_once_get_permits_of_their_own(self, rates: RateLimits) -> None:
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
