def main(rows):
    return {"n": sum(row["n"] for row in rows)}
