"""Everything that docs/architecture.md names exists: files, functions, statements, tables, commands."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from stepwell.store.macros import SQLITE, expand

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "stepwell"
PAGE = ROOT / "docs" / "architecture.md"
LINK = re.compile(r"\]\(([^)#]+)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"\(.*\)$|=$")
# What the page calls by the name that a caller's variable would have.
VARIABLES = {"app": "Stepwell", "job": "JobDefinition"}
NAMES = sorted(set(re.findall(r"`([^`\n]+)`", FENCED.sub("", PAGE.read_text(encoding="utf-8")))))


@cache
def defined_names() -> dict[str, set[str]]:
    """What every module and every class defines, by the name of the module or class; under "" all of it together."""
    names: dict[str, set[str]] = {"": set()}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = {name for node in ast.walk(tree) for name in names_of(node)}
        names.setdefault(path.stem, set()).update(found)
        names[""] |= found | {path.stem}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, set()).update(name for each in node.body for name in names_of(each))
    return names


def names_of(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.arg():
            return [node.arg]
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
    return []


@cache
def sql_names() -> set[str]:
    """Statements, and every word of the schema: tables, columns, triggers, views, statuses, types."""
    statements = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "store" / "sql").rglob("*.sql"))
    schema = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "store" / "schema").rglob("*.sql"))
    code = re.sub(r"--.*", "", schema)
    return {*re.findall(r"-- name: (\w+)", statements), *re.findall(r"[\w-]+", code), *re.findall(r"@\w+", statements)}


def exists(name: str) -> bool:
    if name.startswith("@"):
        macro = name.split("(")[0]
        return macro in sql_names() or macro[1:] in defined_names()["statement"]
    if name.startswith("stepwell "):
        from stepwell.cli import main

        return name.split()[1] in main.list_commands(None)  # type: ignore[arg-type]
    if name.startswith("make "):
        return f"\n{name.split()[1]}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    if "/" in name or name.endswith((".py", ".sql", ".toml")):
        path = name.replace("X.", "runs.")
        return (PACKAGE / path).exists() or (ROOT / path).exists()
    owner, _, member = CALL.sub("", name).rpartition(".")
    if owner:
        return member in defined_names().get(VARIABLES.get(owner, owner), ())
    return member in defined_names()[""] or member in sql_names()


def test_what_the_page_names_exists() -> None:
    assert len(NAMES) > 100
    assert [name for name in NAMES if not exists(name)] == []


def test_the_table_of_tables_has_the_writers_and_readers_of_each() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", section("Who writes which table"), re.MULTILINE)
    told = {table: (subjects_in(written), "effects" in written or "trigger" in written) for table, written, _ in rows}
    assert told == {table: (writers(table), is_written_by_the_database(table)) for table in tables()}
    for table, _, read in rows:
        if read != "everything":
            assert subjects_in(read) == readers(table) - {"sweep", "invariants"}, table


def section(title: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def subjects_in(cell: str) -> set[str]:
    """The modules of verbs that a cell names."""
    return set(re.findall(r"`(\w+)`", cell)) & statements().keys()


@cache
def statements() -> dict[str, str]:
    """The SQL of each module of verbs, on both databases, and the rows that its functions insert."""
    found: dict[str, str] = {}
    for path in (PACKAGE / "store" / "sql").rglob("*.sql"):
        text = (
            re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
            .replace("@agenda\n", "steps_agenda\n")
            .replace("@unconcluded\n", "steps_unconcluded\n")
            .replace("@is_dispatching", expand("@is_dispatching", SQLITE))
        )
        found[path.stem] = found.get(path.stem, "") + text
    for path in (PACKAGE / "store" / "engine").glob("*.py"):
        inserted = re.findall(r'tx\.insert\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
        if path.stem in found:
            found[path.stem] += "".join(f"INSERT INTO {table};" for table in inserted)
    return found


def schema(pattern: str) -> str:
    paths = (PACKAGE / "store" / "schema").rglob(pattern)
    return "".join(re.sub(r"--.*", "", path.read_text(encoding="utf-8")) for path in paths)


def tables() -> set[str]:
    return set(re.findall(r"CREATE TABLE (\w+)", schema("*.sql")))


def writes(sql: str, table: str) -> bool:
    is_sequence = f"nextval('{table}')" in sql
    return is_sequence or re.search(rf"(?:INSERT INTO|UPDATE|DELETE FROM) {table}\b", sql) is not None


def writers(table: str) -> set[str]:
    return {subject for subject, sql in statements().items() if writes(sql, table)}


def readers(table: str) -> set[str]:
    reads = re.compile(rf"(?<!DELETE )(?:FROM|JOIN) {table}\b")
    return {subject for subject, sql in statements().items() if reads.search(sql)}


def is_written_by_the_database(table: str) -> bool:
    """Whether a trigger does; but only the state of a step is news: times and the spelling of a UUID are not."""
    return table != "steps" and (writes(schema("*triggers.sql"), table) or writes(schema("effects.sql"), table))


def test_a_name_that_does_not_exist_is_found() -> None:
    wrong = ["store/changed.py", "finish_lots", "steps_plan", "Worker.spin", "stepwell fly", "@nothing", "make haste"]
    assert not [name for name in wrong if exists(name)]


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
