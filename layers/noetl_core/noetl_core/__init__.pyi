# What type checkers see: the names that __init__.py loads when they are asked for. It imports nothing itself, so that what is
# inside the package may ask it for the version.
from noetl_core.runtime.embedded import Execution as Execution
from noetl_core.runtime.embedded import run as run
from noetl_core.runtime.notebook import View as View

__version__: str
