def main(rows: list[dict[str, int]]) -> dict[str, int]:
    return {"n": sum(row["n"] for row in rows)}
