"""The ports: small protocols through which the engine reaches the outside world. Each has one contract test suite
(`noetl_core.testing.contracts`) that all its adapters pass.

They are in `log`, `queue`, `asks`, `objects`, `catalog`, `triggers`, `deliveries`, `secrets`, `key_values`, `limits`, `marks`,
`output` and `process`, their errors in `errors`, the time limits of their callers in `deadline`, and changes of items that others
change too in `contention`; import them from this package. Nothing here is an adapter.

The errors of the ports, by who must act:

* `PortError`
  * `Conflict`: the position is taken. The caller reloads and decides again (control) or stops (worker).
  * `NotFound`: there is no such item. The caller decides.
  * `Unavailable`: the service did not answer, or throttled. The platform tries again (queue redelivery, stream retry).
    * `AskFailed`: a worker's ask was not answered. The stream routes the boundary.
    * `StorageFailed`: the disk is full, read-only or broken. The owner of the machine must act; then the work can continue.
    * `NewerLog`: a newer version of the code wrote it. Processes of that version continue; this one waits.
  * `Forbidden`: the caller may not have the item. The operator, who grants rights, acts.
  * `TooLarge`: the value exceeds the limit of the service. The author must make it smaller or pass it by reference.
  * `CorruptLog`: a commit cannot be interpreted (gap, checksum). An operator must act.
    * `UnreadableStore`: the local store is damaged, or is none. The owner of the machine must act.
"""

from noetl_core.engine.heads import Head as Head
from noetl_core.ports.asks import Asks as Asks
from noetl_core.ports.catalog import Due as Due
from noetl_core.ports.catalog import DueItems as DueItems
from noetl_core.ports.catalog import ExecutionIndex as ExecutionIndex
from noetl_core.ports.catalog import Gate as Gate
from noetl_core.ports.catalog import Gates as Gates
from noetl_core.ports.catalog import Heads as Heads
from noetl_core.ports.catalog import PathChange as PathChange
from noetl_core.ports.catalog import PathRecord as PathRecord
from noetl_core.ports.catalog import PathRecords as PathRecords
from noetl_core.ports.catalog import PlaybookCatalog as PlaybookCatalog
from noetl_core.ports.catalog import PlaybookVersion as PlaybookVersion
from noetl_core.ports.contention import MAX_ATTEMPTS as MAX_ATTEMPTS
from noetl_core.ports.contention import retry_conflicts as retry_conflicts
from noetl_core.ports.deadline import NEVER as NEVER
from noetl_core.ports.deadline import Deadline as Deadline
from noetl_core.ports.deadline import OutOfTime as OutOfTime
from noetl_core.ports.deliveries import WebhookDelivery as WebhookDelivery
from noetl_core.ports.deliveries import WebhookSink as WebhookSink
from noetl_core.ports.errors import AskFailed as AskFailed
from noetl_core.ports.errors import Conflict as Conflict
from noetl_core.ports.errors import CorruptLog as CorruptLog
from noetl_core.ports.errors import Forbidden as Forbidden
from noetl_core.ports.errors import MissingPackages as MissingPackages
from noetl_core.ports.errors import NewerLog as NewerLog
from noetl_core.ports.errors import NotFound as NotFound
from noetl_core.ports.errors import PortError as PortError
from noetl_core.ports.errors import StorageFailed as StorageFailed
from noetl_core.ports.errors import TooLarge as TooLarge
from noetl_core.ports.errors import Unavailable as Unavailable
from noetl_core.ports.errors import UnreadableStore as UnreadableStore
from noetl_core.ports.key_values import Entry as Entry
from noetl_core.ports.key_values import KeyValues as KeyValues
from noetl_core.ports.key_values import OtherRevision as OtherRevision
from noetl_core.ports.key_values import check_entry as check_entry
from noetl_core.ports.key_values import check_listed as check_listed
from noetl_core.ports.limits import LimitPlaces as LimitPlaces
from noetl_core.ports.limits import LimitQueue as LimitQueue
from noetl_core.ports.limits import LimitRecord as LimitRecord
from noetl_core.ports.limits import LimitStore as LimitStore
from noetl_core.ports.limits import LimitWaiter as LimitWaiter
from noetl_core.ports.limits import RateInUse as RateInUse
from noetl_core.ports.limits import RateLimits as RateLimits
from noetl_core.ports.limits import RequestRates as RequestRates
from noetl_core.ports.log import CommitReader as CommitReader
from noetl_core.ports.log import EventStore as EventStore
from noetl_core.ports.marks import EvaluationMarks as EvaluationMarks
from noetl_core.ports.objects import Inbox as Inbox
from noetl_core.ports.objects import ObjectWriter as ObjectWriter
from noetl_core.ports.objects import ResultStore as ResultStore
from noetl_core.ports.objects import Upload as Upload
from noetl_core.ports.output import RunningOutput as RunningOutput
from noetl_core.ports.output import RunningTask as RunningTask
from noetl_core.ports.process import Clock as Clock
from noetl_core.ports.process import PackageFinder as PackageFinder
from noetl_core.ports.queue import Backlog as Backlog
from noetl_core.ports.queue import CommandQueue as CommandQueue
from noetl_core.ports.queue import DeadLetter as DeadLetter
from noetl_core.ports.queue import Waiting as Waiting
from noetl_core.ports.secrets import ReadsSecrets as ReadsSecrets
from noetl_core.ports.secrets import Sealer as Sealer
from noetl_core.ports.secrets import Secrets as Secrets
from noetl_core.ports.secrets import StoredToken as StoredToken
from noetl_core.ports.secrets import TokenCache as TokenCache
from noetl_core.ports.triggers import Firing as Firing
from noetl_core.ports.triggers import Firings as Firings
from noetl_core.ports.triggers import RefusedDeliveries as RefusedDeliveries
from noetl_core.ports.triggers import RefusedDelivery as RefusedDelivery
from noetl_core.ports.triggers import TriggerRecord as TriggerRecord
from noetl_core.ports.triggers import Triggers as Triggers
from noetl_core.ports.triggers import TriggerStore as TriggerStore
