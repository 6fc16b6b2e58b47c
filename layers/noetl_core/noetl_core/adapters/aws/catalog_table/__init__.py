"""Adapters over the catalog table: `catalog` (which has its layout), `index` (heads and due items), `gates`, `triggers`,
`limits`, `rates`, `access_tokens`, `key_values` and `output`. Nothing here decides anything about executions."""
