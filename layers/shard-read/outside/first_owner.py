"""Prints the first owner with a row in the file of an embedded storage. Ends with 1 if there is none yet.

  first_owner.py FILE
"""
import sqlite3
import sys

database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
table = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%up_version%' LIMIT 1").fetchone()
row = table and database.execute(f"SELECT app_id, region_id, logic_type, owner_id FROM `{table[0]}` LIMIT 1").fetchone()
if not row:
    sys.exit(1)
print("/".join(bytes(name).decode() for name in row))
