"""Reads what Rust has no reader for here, for `cargo xtask deploy`, and prints it as JSON.

`read.py yaml FILE …` prints the documents of YAML files. A key that is written twice is an error.
`read.py promql FILE` reads a list of expressions, and prints for each its metrics with the labels that it
names. An expression that is no PromQL is an error.
"""

import json
import sys


def documents(files):
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            # Merged keys (`<<`) may be overridden, so they are not looked at.
            seen = set()
            for key, _ in node.value:
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise yaml.constructor.ConstructorError(None, None, f"`{key.value}` is there twice", key.start_mark)
                seen.add(key.value)
            self.flatten_mapping(node)
            return super().construct_mapping(node, deep)

    read = []
    for file in files:
        with open(file, encoding="utf-8") as text:
            read.extend(yaml.load_all(text, Loader))
    return read


def selectors(node):
    """The selectors of an expression, and the labels by which it groups."""
    import promql_parser as promql

    metrics, labels = [], []

    def visit(node):
        if isinstance(node, promql.VectorSelector):
            named = [one.name for one in node.matchers.matchers]
            metrics.append({"name": node.name, "labels": named})
        elif isinstance(node, promql.MatrixSelector):
            visit(node.vector_selector)
        elif isinstance(node, promql.AggregateExpr):
            if node.modifier is not None:
                labels.extend(node.modifier.labels)
            visit(node.expr)
            if node.param is not None:
                visit(node.param)
        elif isinstance(node, promql.BinaryExpr):
            visit(node.lhs)
            visit(node.rhs)
        elif isinstance(node, promql.Call):
            for argument in node.args:
                visit(argument)
        elif isinstance(node, (promql.ParenExpr, promql.UnaryExpr, promql.SubqueryExpr)):
            visit(node.expr)
        elif not isinstance(node, (promql.NumberLiteral, promql.StringLiteral)):
            # A part that is not looked at could name anything.
            raise TypeError(f"{type(node).__name__} is not known here")

    visit(node)
    return {"metrics": metrics, "labels": labels}


def expressions(texts):
    import promql_parser as promql

    read = []
    for text in texts:
        try:
            read.append(selectors(promql.parse(text)))
        except Exception as error:
            sys.exit(f"{text}: {error}")
    return read


if __name__ == "__main__":
    what, *files = sys.argv[1:]
    if what == "yaml":
        read = documents(files)
    else:
        with open(files[0], encoding="utf-8") as texts:
            read = expressions(json.load(texts))
    json.dump(read, sys.stdout)
