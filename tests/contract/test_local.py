"""The contracts over the local adapters (SQLite in memory and in a file, folders, the queue in process) and the simulated ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from noetl_core.adapters.local.access_tokens import SqliteTokenCache
from noetl_core.adapters.local.catalog import SqliteExecutionIndex, SqliteGates, SqlitePlaybookCatalog
from noetl_core.adapters.local.database import MEMORY, Database
from noetl_core.adapters.local.events import SqliteEventStore
from noetl_core.adapters.local.key_values import SqliteKeyValues
from noetl_core.adapters.local.keys import file_key, memory_key
from noetl_core.adapters.local.limits import SqliteLimitPlaces
from noetl_core.adapters.local.queue import LocalQueue
from noetl_core.adapters.local.rates import LocalRequestRates, SqliteRateLimits
from noetl_core.adapters.local.results import FileResultStore, LazyTempResultStore
from noetl_core.adapters.local.sealer import LocalSealer
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.adapters.local.triggers import SqliteTriggers
from noetl_core.engine.records import Command
from noetl_core.ports import (
    CommandQueue,
    CorruptLog,
    EventStore,
    ExecutionIndex,
    Gates,
    KeyValues,
    LimitPlaces,
    PlaybookCatalog,
    RateLimits,
    RequestRates,
    ResultStore,
    Sealer,
    Secrets,
    TokenCache,
    TriggerStore,
)
from noetl_core.testing.contracts.access_tokens import TokenCacheContract
from noetl_core.testing.contracts.catalog import (
    ExecutionIndexContract,
    GatesContract,
    LastingIndexContract,
    PlaybookCatalogContract,
)
from noetl_core.testing.contracts.clocks import FakeClock
from noetl_core.testing.contracts.event_store import DurableLogContract, EventStoreContract
from noetl_core.testing.contracts.key_values import KeyValuesContract
from noetl_core.testing.contracts.limits import LimitPlacesContract
from noetl_core.testing.contracts.rates import RateLimitsContract, RequestRatesContract
from noetl_core.testing.contracts.stores import (
    CommandQueueContract,
    Receive,
    ResultStoreContract,
    SealerContract,
    SecretsContract,
)
from noetl_core.testing.contracts.triggers import TriggerStoreContract
from tests.sim.catalog import SimCatalog, SimIndex
from tests.sim.ports import Faults, SimClock, SimGates, SimQueue, SimResults, SimStore
from tests.sim.shared_limits import SimPlaces, SimRates
from tests.sim.triggers import SimTriggers


class _Local:
    @pytest.fixture(params=["memory", "file", "file, power"])
    def database(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
        if request.param == "memory":
            database = Database(MEMORY)
        else:
            database = Database(tmp_path / "log.sqlite", "power" if "power" in request.param else "process")
        yield database
        database.close()

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()


class TestSqliteEventStore(_Local, DurableLogContract):
    @pytest.fixture
    def store(self, database: Database, clock: FakeClock) -> EventStore:
        return SqliteEventStore(database, clock=clock)


class TestSqlitePlaybookCatalog(_Local, PlaybookCatalogContract):
    @pytest.fixture
    def catalog(self, database: Database) -> PlaybookCatalog:
        return SqlitePlaybookCatalog(database)

    @pytest.fixture
    def other(self, database: Database) -> PlaybookCatalog:
        return SqlitePlaybookCatalog(database)


class TestSqliteExecutionIndex(_Local, LastingIndexContract):
    @pytest.fixture
    def index(self, database: Database, clock: FakeClock) -> ExecutionIndex:
        return SqliteExecutionIndex(database, clock)


class TestSqliteGates(_Local, GatesContract):
    @pytest.fixture
    def gates(self, database: Database) -> Gates:
        return SqliteGates(database)


class TestSqliteRateLimits(_Local, RateLimitsContract):
    @pytest.fixture
    def rates(self, database: Database) -> RateLimits:
        return SqliteRateLimits(database)


class TestLocalRequestRates(RequestRatesContract):
    @pytest.fixture
    def requests(self) -> RequestRates:
        return LocalRequestRates()


class TestSimRateLimits(RateLimitsContract):
    @pytest.fixture
    def rates(self) -> RateLimits:
        return SimRates(Faults())


class TestSqliteLimitPlaces(_Local, LimitPlacesContract):
    @pytest.fixture
    def places(self, database: Database) -> LimitPlaces:
        return SqliteLimitPlaces(database)


class TestSimLimitPlaces(LimitPlacesContract):
    @pytest.fixture
    def places(self) -> LimitPlaces:
        return SimPlaces(Faults())


class TestSqliteTokenCache(_Local, TokenCacheContract):
    @pytest.fixture
    def tokens(self, database: Database) -> TokenCache:
        return SqliteTokenCache(database)


class TestSqliteKeyValues(_Local, KeyValuesContract):
    @pytest.fixture
    def values(self, database: Database) -> KeyValues:
        return SqliteKeyValues(database)


class TestSqliteTriggers(_Local, TriggerStoreContract):
    @pytest.fixture
    def triggers(self, database: Database, clock: FakeClock) -> TriggerStore:
        return SqliteTriggers(database, clock)


class TestFileResultStore(ResultStoreContract):
    @pytest.fixture
    def results(self, tmp_path: Path) -> ResultStore:
        return FileResultStore(tmp_path / "results")


class TestLazyTempResultStore(ResultStoreContract):
    @pytest.fixture
    def results(self) -> Iterator[ResultStore]:
        store = LazyTempResultStore()
        yield store
        store.close()


class TestLocalSecrets(SecretsContract):
    @pytest.fixture
    def secrets(self, tmp_path: Path) -> Secrets:
        return LocalSecrets(tmp_path / "new" / "credentials.json", environment={})


class TestLocalSealer(SealerContract):
    @pytest.fixture
    def sealer(self, tmp_path: Path) -> Sealer:
        return LocalSealer(file_key(tmp_path / "new" / "seal.key"))

    @pytest.fixture
    def another(self) -> Sealer:
        return LocalSealer(memory_key())

    def test_the_key_is_created_once_and_readable_only_by_its_owner(self, tmp_path: Path) -> None:
        keys = [file_key(tmp_path / "k" / "seal.key")() for _ in range(3)]
        assert len(set(keys)) == 1
        assert len(keys[0]) == 32
        assert (tmp_path / "k" / "seal.key").stat().st_mode & 0o777 == 0o600
        assert [p.name for p in (tmp_path / "k").iterdir()] == ["seal.key"]

    def test_a_file_that_is_not_a_key_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "seal.key").write_bytes(b"short")
        with pytest.raises(CorruptLog, match="is not a key"):
            LocalSealer(file_key(tmp_path / "seal.key")).seal(b"x", {})


class TestLocalQueue(CommandQueueContract):
    @pytest.fixture
    def queue(self) -> LocalQueue:
        return LocalQueue(FakeClock())

    @pytest.fixture
    def receive(self, queue: LocalQueue) -> Receive:
        def receive(pool: str) -> Sequence[Command]:
            taken = []
            while delivery := queue.receive():
                taken.append(delivery)
            for delivery in taken:
                if delivery.command is not None and delivery.command.pool != pool:
                    queue.put_back(delivery, 0)
            return [d.command for d in taken if d.command is not None and d.command.pool == pool]

        return receive


class TestSimStore(EventStoreContract):
    @pytest.fixture
    def store(self) -> EventStore:
        return SimStore(Faults(), lambda commit: None)


class TestSimCatalog(PlaybookCatalogContract):
    @pytest.fixture
    def catalog(self) -> PlaybookCatalog:
        return SimCatalog()

    @pytest.fixture
    def other(self, catalog: PlaybookCatalog) -> PlaybookCatalog:
        return catalog


class TestSimIndex(ExecutionIndexContract):
    @pytest.fixture
    def index(self) -> ExecutionIndex:
        return SimIndex(Faults())


class TestSimGates(GatesContract):
    @pytest.fixture
    def gates(self) -> Gates:
        return SimGates(Faults())


class TestSimTriggers(TriggerStoreContract):
    @pytest.fixture
    def triggers(self) -> TriggerStore:
        return SimTriggers(Faults())


class TestSimResults(ResultStoreContract):
    @pytest.fixture
    def results(self) -> ResultStore:
        return SimResults(Faults())


class TestSimQueue(CommandQueueContract):
    @pytest.fixture
    def queue(self) -> CommandQueue:
        return SimQueue(Faults(), SimClock())

    @pytest.fixture
    def receive(self, queue: SimQueue) -> Receive:
        def receive(pool: str) -> Sequence[Command]:
            taken = [m for m in queue.messages if m.visible_at <= queue.clock.time and m.command and m.command.pool == pool]
            queue.messages = [m for m in queue.messages if m not in taken]
            return [m.command for m in taken if m.command is not None]

        return receive
