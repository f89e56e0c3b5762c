"""Writes the docstrings of the native module into its stubs, where editors look for them.

    python tools/stub_docs.py [--check]
"""

import ast
import inspect
import pathlib
import sys

from openetw import _native

STUBS = pathlib.Path(__file__).parents[1] / "python/openetw/_native.pyi"


def with_docs(text):
    """The text of the stubs with the docstrings of the module as it is."""
    lines = text.splitlines(keepends=True)
    places = [line_start for line_start in _starts(lines)]
    edits = []

    def visit(nodes, owner):
        for node in nodes:
            if isinstance(node, ast.If):
                visit(node.body, owner)
            elif isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                thing = getattr(owner, node.name)
                if not any(getattr(decorator, "id", "") == "overload" for decorator in node.decorator_list):
                    edits.append(_edit(node, inspect.getdoc(thing), places))
                if isinstance(node, ast.ClassDef):
                    visit(node.body, thing)

    visit(ast.parse(text).body, _native)
    for start, end, new in sorted(filter(None, edits), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _starts(lines):
    place = 0
    for line in lines:
        yield place
        place += len(line)


def _edit(node, doc, places):
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    indent = " " * (node.col_offset + 4)
    if not doc or not is_text:
        raise SystemExit(f"{node.name} has no docstring, or its body is neither that nor '...'")
    text = "\n".join(f"{indent}{line}" if line else "" for line in doc.splitlines()).lstrip()
    text = f'"""{text}"""' if "\n" not in text else f'"""{text}\n{indent}"""'
    start = places[first.lineno - 1] + first.col_offset
    end = places[first.end_lineno - 1] + first.end_col_offset
    # `...` is on the line of the definition.
    new = f"\n{indent}{text}" if first.value.value is Ellipsis else text
    start -= first.value.value is Ellipsis
    return start, end, new


if __name__ == "__main__":
    old = STUBS.read_text()
    new = with_docs(old)
    if "--check" in sys.argv[1:] and old != new:
        raise SystemExit("the stubs have other docstrings: run tools/stub_docs.py")
    if "--check" not in sys.argv[1:]:
        STUBS.write_text(new)
