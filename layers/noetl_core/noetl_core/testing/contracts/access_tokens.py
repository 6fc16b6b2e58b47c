"""Contract of `TokenCache`."""

from __future__ import annotations

import threading

from noetl_core.ports import StoredToken, TokenCache
from noetl_core.values.instants import SECOND

NOW = 1_800_000_000 * SECOND
LATER = NOW + 30 * SECOND


def token(sealed: str = "sealed", until: int = NOW + 3600 * SECOND) -> StoredToken:
    return StoredToken(sealed, until, until // SECOND + 60)


class TokenCacheContract:
    """Give a fixture `tokens`: an empty cache."""

    def test_a_token_is_read_back_and_accesses_are_counted(self, tokens: TokenCache) -> None:
        assert tokens.read("k", NOW) is None
        assert tokens.write("k", token(), None)
        first, second = tokens.read("k", NOW), tokens.read("k", NOW + 1)
        assert first is not None and second is not None
        assert (first.sealed, first.until, first.expires_at) == ("sealed", token().until, token().expires_at)
        assert (first.accesses, second.accesses) == (1, 2)
        assert first.version == second.version != ""
        assert tokens.read("other", NOW) is None

    def test_a_token_replaces_the_one_that_its_writer_has_seen(self, tokens: TokenCache) -> None:
        tokens.write("k", token("one"), None)
        assert not tokens.write("k", token("two"), None)
        one = tokens.read("k", NOW)
        assert one is not None and one.sealed == "one"
        assert tokens.write("k", token("three"), one.version)
        assert not tokens.write("k", token("four"), one.version)
        three = tokens.read("k", NOW)
        assert three is not None and (three.sealed, three.accesses) == ("three", 1)
        assert three.version != one.version

    def test_only_one_worker_renews_a_missing_token(self, tokens: TokenCache) -> None:
        assert tokens.begin_renewal("k", None, NOW, LATER)
        assert not tokens.begin_renewal("k", None, NOW + 1, LATER)
        assert tokens.read("k", NOW) is None
        assert tokens.write("k", token(), None)
        assert not tokens.begin_renewal("k", None, NOW + 2, LATER)

    def test_one_worker_renews_a_token_that_ends(self, tokens: TokenCache) -> None:
        tokens.write("k", token(), None)
        seen = tokens.read("k", NOW)
        assert seen is not None
        assert not tokens.begin_renewal("k", "another version", NOW, LATER)
        assert tokens.begin_renewal("k", seen.version, NOW, LATER)
        assert not tokens.begin_renewal("k", seen.version, NOW + 1, LATER)
        assert tokens.read("k", NOW) is not None
        assert tokens.write("k", token("newer"), seen.version)
        newer = tokens.read("k", NOW)
        assert newer is not None and tokens.begin_renewal("k", newer.version, NOW, LATER)

    def test_a_renewal_that_comes_to_nothing_is_free_again(self, tokens: TokenCache) -> None:
        assert tokens.begin_renewal("k", None, NOW, LATER)
        tokens.end_renewal("k", None)
        assert tokens.begin_renewal("k", None, NOW, LATER)
        assert tokens.begin_renewal("k", None, LATER, LATER + SECOND)  # its holder is gone
        tokens.end_renewal("unknown", "version")

    def test_a_token_that_is_expired_is_not_there(self, tokens: TokenCache) -> None:
        tokens.write("k", token(), None)
        after = token().expires_at * SECOND
        assert tokens.read("k", after) is None
        assert tokens.begin_renewal("k", None, after, after + 30 * SECOND)
        assert tokens.write("k", token("newer", after + 60 * SECOND), None)
        found = tokens.read("k", after)
        assert found is not None and found.sealed == "newer"

    def test_one_of_many_concurrent_workers_renews(self, tokens: TokenCache) -> None:
        won: list[bool] = []
        threads = [threading.Thread(target=lambda: won.append(tokens.begin_renewal("k", None, NOW, LATER))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won.count(True) == 1
