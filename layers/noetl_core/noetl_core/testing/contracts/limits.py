"""Contract of `LimitPlaces`."""

from __future__ import annotations

import threading
from dataclasses import replace

from noetl_core.ports import LimitPlaces, LimitRecord, LimitWaiter
from noetl_core.values.instants import SECOND

NOW = 1_800_000_000 * SECOND


class LimitPlacesContract:
    """Give a fixture `places`: limits that nobody has used."""

    def test_a_record_is_written_if_nobody_else_wrote_it_meanwhile(self, places: LimitPlaces) -> None:
        seen = places.read("orders")
        assert seen == LimitRecord("orders")
        assert places.write(replace(seen, holders={"1": NOW}, most=2), NOW)
        assert not places.write(replace(seen, holders={"2": NOW}, most=2), NOW)
        first = places.read("orders")
        assert (dict(first.holders), first.most, first.waiting) == ({"1": NOW}, 2, False)
        assert places.write(replace(first, holders={"1": NOW, "2/r": NOW + 1}, waiting=True), NOW)
        assert not places.write(replace(first, holders={}), NOW)
        second = places.read("orders")
        assert (dict(second.holders), second.waiting) == ({"1": NOW, "2/r": NOW + 1}, True)
        assert places.read("other") == LimitRecord("other")

    def test_a_record_keeps_the_displaced_holders(self, places: LimitPlaces) -> None:
        assert places.write(replace(places.read("orders"), holders={"1": NOW}, displaced={"1": "2", "3/ü": "4"}), NOW)
        seen = places.read("orders")
        assert dict(seen.displaced) == {"1": "2", "3/ü": "4"}
        assert [record.displaced for record in places.records(NOW)] == [seen.displaced]
        assert places.write(replace(seen, displaced={}), NOW)
        assert not places.read("orders").displaced

    def test_one_of_many_simultaneous_writes_succeeds(self, places: LimitPlaces) -> None:
        seen, written = places.read("orders"), list[bool]()
        tries = [lambda n=n: written.append(places.write(replace(seen, holders={str(n): NOW}), NOW)) for n in range(8)]
        threads = [threading.Thread(target=attempt) for attempt in tries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert written.count(True) == 1

    def test_waiters_are_listed_in_the_order_of_their_places(self, places: LimitPlaces) -> None:
        for place in ("b", "c", "a", "d"):
            places.enqueue("orders", LimitWaiter(place, place, 2))
        places.enqueue("orders", LimitWaiter("b", "b", 2, cancels="1"))
        places.enqueue("other", LimitWaiter("x", "0", 1))
        assert list(places.waiters("orders", 2)) == [LimitWaiter("a", "a", 2), LimitWaiter("b", "b", 2, "1")]
        places.dequeue("orders", "a")
        places.dequeue("orders", "no such place")
        assert [waiter.holder for waiter in places.waiters("orders", 10)] == ["b", "c", "d"]
        assert places.waiters("none", 10) in ([], ())

    def test_a_waiter_that_has_left_is_not_replaced(self, places: LimitPlaces) -> None:
        places.enqueue("orders", LimitWaiter("a", "a", 1))
        assert places.replace("orders", LimitWaiter("a", "a", 2, cancels="x"))
        assert list(places.waiters("orders", 10)) == [LimitWaiter("a", "a", 2, "x")]
        assert not places.replace("other", LimitWaiter("a", "a", 1))
        places.dequeue("orders", "a")
        assert not places.replace("orders", LimitWaiter("a", "a", 1, cancels="y"))
        assert not places.waiters("orders", 10)

    def test_limits_in_use_are_listed_by_their_keys(self, places: LimitPlaces) -> None:
        for key in ("b", "a/ü", "c"):
            assert places.write(LimitRecord(key, {"1": NOW}, 1), NOW)
        gone = places.read("c")
        assert places.write(replace(gone, holders={}), NOW)
        assert [record.key for record in places.records(NOW)] == ["a/ü", "b"]
