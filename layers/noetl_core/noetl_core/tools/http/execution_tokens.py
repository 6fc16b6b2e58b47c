"""Access tokens for one execution, by the scope in which each is shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from noetl_core.values.frozen import frozen

if TYPE_CHECKING:
    from noetl_core.tools.grants import Grant, Token
    from noetl_core.tools.http.access_tokens import Tokens


@frozen
class ExecutionTokens:
    """`tools.base.AccessTokens`, and `wait` for templates."""

    tokens: Callable[[], Tokens]
    """Returns the tokens of the process."""
    execution_id: str
    family: Callable[[], str | None]
    """Returns the first ancestor of the execution."""

    async def token(self, grant: Grant, refused: Token | None = None) -> Token:
        return await self.tokens().token(grant, self._owner(grant), refused)

    def wait(self, grant: Grant) -> Token:
        """Return a token, blocking this thread. Raises as `token`."""
        return self.tokens().wait(grant, self._owner(grant))

    def _owner(self, grant: Grant) -> str:
        if grant.scope == "global":
            return ""
        return self.execution_id if grant.scope == "local" else f"family {self.family() or self.execution_id}"
