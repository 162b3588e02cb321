"""Programs as ONNX models, written from operators of ONNX alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fairspan.deployment.program import Program, Step

__all__ = ["OUTPUT_PREFIX", "onnx_model", "output_names", "require_onnx"]

OPSET = 18
# TreeEnsemble with numbers of float64 came with version 5 of the operators for machine learning.
_ML_OPSET, _ML_OPSET_TREES = 3, 5
_IR, _IR_TREES = 8, 10
OUTPUT_PREFIX = "output_"
_LEAF_OR_EQUAL, _MEMBER = 0, 6
# Names inside the file begin with this.
_INSIDE = "fairspan/"


def require_onnx() -> Any:
    """The package onnx, or an error that says how to install it."""
    try:
        import onnx
    except ImportError as error:
        msg = 'Writing an ONNX file needs the package onnx: pip install "fairspan[onnx]".'
        raise ImportError(msg) from error
    return onnx


def output_names(program: Program) -> dict[str, str]:
    """Names of the outputs in a file, which differ from those of the inputs."""
    inputs, out = {given.name for given in program.inputs}, dict[str, str]()
    for name in program.outputs:
        shown = name
        while shown in inputs:
            shown = OUTPUT_PREFIX + shown
        out[name] = shown
    return out


def onnx_model(program: Program, dtype: str, metadata: Mapping[str, str], version: str) -> Any:
    """Build the model; inputs and outputs have numbers of ``dtype``, and arithmetic is in float64."""
    onnx = require_onnx()
    graph = _Graph(onnx, program, dtype)
    trees = any(step.operation == "trees" for step in program.steps)
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    if graph.uses_ml:
        opsets.append(
            onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPSET_TREES if trees else _ML_OPSET)
        )
    model = onnx.helper.make_model(
        graph.build(),
        opset_imports=opsets,
        ir_version=_IR_TREES if trees else _IR,
        producer_name="fairspan",
        producer_version=version,
    )
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=not trees)
    return model


class _Graph:
    """Nodes of one graph."""

    def __init__(self, onnx: Any, program: Program, dtype: str) -> None:
        self._onnx, self._program = onnx, program
        self._float = {
            "float32": onnx.TensorProto.FLOAT,
            "float64": onnx.TensorProto.DOUBLE,
        }[dtype]
        self._nodes: list[Any] = []
        self._initializers: dict[str, Any] = {}
        self._steps = {step.result: step for step in program.steps}
        self._constants = set(program.constants)
        self._taken = {given.name for given in program.inputs} | set(output_names(program).values())
        self.uses_ml = any(step.operation in ("look_up", "trees") for step in program.steps)

    # -------------------------------------------------------------- names and nodes

    def _name(self, name: str) -> str:
        """A name inside the graph that no column has."""
        prefix = _INSIDE
        while any(taken.startswith(prefix) for taken in self._taken):
            prefix += "/"
        return prefix + name

    def _array(self, name: str, array: Any) -> str:
        """An initializer."""
        inside = self._name(name)
        if inside not in self._initializers:
            tensor = self._onnx.numpy_helper.from_array(np.array(array, order="C"), inside)
            self._initializers[inside] = tensor
        return inside

    def _argument(self, name: str) -> str:
        if name in self._constants:
            return self._array(name, self._program.constants[name])
        return self._name(name)

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node."""
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def build(self) -> Any:
        """All nodes, with the inputs and outputs of the file."""
        helper, proto = self._onnx.helper, self._onnx.TensorProto
        inputs, outputs = [], []
        for given in self._program.inputs:
            kind = proto.STRING if given.kind == "text" else self._float
            inputs.append(helper.make_tensor_value_info(given.name, kind, ["rows", given.width]))
            inside = self._name(given.id)
            if given.kind == "text":
                self.node("Identity", [given.name], inside)
            else:
                self.node("Cast", [given.name], inside, to=proto.DOUBLE)
        for step in self._program.steps:
            self._step(step)
        for name, shown in output_names(self._program).items():
            inside, width = self._name(self._program.outputs[name]), self._program.shapes[name]
            shape = ["rows"] if width is None else ["rows", width]
            if name == "label":
                kind = self._label_kind(self._steps[self._program.outputs[name]].arguments[1])
                self.node("Identity", [inside], shown)
            else:
                kind = self._float
                self.node("Cast", [inside], shown, to=kind)
            outputs.append(helper.make_tensor_value_info(shown, kind, shape))
        initializers = list(self._initializers.values())
        return helper.make_graph(self._nodes, "fairspan", inputs, outputs, initializers)

    # -------------------------------------------------------------- operations

    def _step(self, step: Step) -> None:
        out = self._name(step.result)
        special: dict[str, Callable[[Step, str], Any]] = {
            "columns": self._columns,
            "label": self._label,
            "look_up": self._look_up,
            "city": self._distance,
            "chi2": self._distance,
            "trees": self._trees,
        }
        if step.operation in special:
            special[step.operation](step, out)
            return
        names = [self._argument(name) for name in step.arguments]
        if step.operation == "concat":
            self.node("Concat", names, out, axis=1)
        elif step.operation in ("sum", "max"):
            axis = self._array("axis", np.array([1], dtype=np.int64))
            self.node({"sum": "ReduceSum", "max": "ReduceMax"}[step.operation], [*names, axis], out)
        else:
            self.node(_PLAIN[step.operation], names, out)

    def _columns(self, step: Step, out: str) -> None:
        x, which = step.arguments
        # One number leaves a vector, as in numpy.
        which = (
            self._argument(which) if isinstance(which, str) else self._array("0", np.array(which))
        )
        self.node("Gather", [self._argument(x), which], out, axis=1)

    def _label(self, step: Step, out: str) -> None:
        x = self._argument(step.arguments[0])
        best = self.node("ArgMax", [x], f"{out}/best", axis=1, keepdims=0)
        classes = step.arguments[1]
        array = np.array(classes, dtype=object if isinstance(classes[0], str) else None)
        self.node("Gather", [self._array(f"{step.result}/classes", array), best], out, axis=0)

    def _label_kind(self, classes: list[Any]) -> int:
        if isinstance(classes[0], str):
            return int(self._onnx.TensorProto.STRING)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.array(classes).dtype))

    def _look_up(self, step: Step, out: str) -> None:
        text, known, table = step.arguments
        size = len(self._program.constants[table])
        code = self.node(
            "LabelEncoder",
            [self._argument(text)],
            f"{out}/code",
            domain="ai.onnx.ml",
            keys_strings=list(known) or [""],
            values_int64s=list(known.values()) or [size - 1],
            default_int64=size - 1,
        )
        axis = self._array("axis", np.array([1], dtype=np.int64))
        flat = self.node("Squeeze", [code, axis], f"{out}/flat")
        self.node("Gather", [self._argument(table), flat], out, axis=0)

    def _distance(self, step: Step, out: str) -> None:
        """Row by row: the differences of all rows to all landmarks would not fit in memory."""
        x, Z = step.arguments
        m, p = self._program.constants[Z].shape
        helper, proto = self._onnx.helper, self._onnx.TensorProto
        axis, landmarks = self._array("axis", np.array([1], dtype=np.int64)), self._argument(Z)
        row, difference, distance = (f"{out}/{name}" for name in ("row", "difference", "distance"))
        inner = [("Sub", [landmarks, row], difference)]
        if step.operation == "city":
            inner.append(("Abs", [difference], distance))
        else:
            tiny = self._array("tiny", np.array(1e-300))
            square, total, size = (f"{out}/{name}" for name in ("square", "total", "size"))
            inner += [
                ("Mul", [difference, difference], square),
                ("Add", [landmarks, row], total),
                ("Add", [total, tiny], size),
                ("Div", [square, size], distance),
            ]
        nodes = [helper.make_node(operator, names, [to]) for operator, names, to in inner]
        nodes.append(helper.make_node("ReduceSum", [distance, axis], [f"{out}/sum"], keepdims=0))
        body = helper.make_graph(
            nodes,
            "distances",
            [helper.make_tensor_value_info(row, proto.DOUBLE, [p])],
            [helper.make_tensor_value_info(f"{out}/sum", proto.DOUBLE, [m])],
        )
        # onnxruntime refuses a Scan of no rows, so a row of zeros comes last, and its result is cut off.
        zeros, rows = self._array(f"{p} zeros", np.zeros((1, p))), f"{out}/rows"
        self.node("Concat", [self._argument(x), zeros], rows, axis=0)
        found = self.node("Scan", [rows], f"{out}/found", body=body, num_scan_inputs=1)
        ends = {"first": 0, "last": -1}
        at = [self._array(name, np.array([n], dtype=np.int64)) for name, n in ends.items()]
        self.node("Slice", [found, *at], out)

    def _trees(self, step: Step, out: str) -> None:
        x, *names, _, start = step.arguments
        roots, targets, nodes, sets = (self._program.constants[name] for name in names)
        attributes = _ensemble(nodes, sets, roots, targets)
        make = self._onnx.numpy_helper.from_array
        tensors = {
            name: make(value, name) if isinstance(value, np.ndarray) else value
            for name, value in attributes.items()
        }
        total = self.node(
            "TreeEnsemble",
            [self._argument(x)],
            f"{out}/total",
            domain="ai.onnx.ml",
            n_targets=int(np.size(self._program.constants[start])),
            **tensors,
        )
        self.node("Add", [total, self._argument(start)], out)


_PLAIN = {
    "matmul": "MatMul",
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "maximum": "Max",
    "minimum": "Min",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
    "greater": "Greater",
    "isnan": "IsNaN",
    "where": "Where",
}


def _ensemble(nodes: Any, sets: Any, roots: Any, targets: Any) -> dict[str, Any]:
    """Attributes of TreeEnsemble: inner nodes and leaves are numbered apart."""
    is_leaf = nodes[:, 2] == np.arange(len(nodes))
    target_of = np.zeros(len(nodes), dtype=np.int64)
    starts = np.append(roots, len(nodes))
    for root, end, target in zip(roots, starts[1:], targets, strict=False):
        target_of[root:end] = target
    # A tree that is one leaf needs a node whose two sides are this leaf.
    single = [int(root) for root in roots if is_leaf[root]]
    leaves, inner = np.flatnonzero(is_leaf), np.flatnonzero(~is_leaf)
    leaf_number = {int(node): i for i, node in enumerate(leaves)}
    inner_number = {int(node): i for i, node in enumerate(inner)}
    inner_number |= {node: len(inner) + i for i, node in enumerate(single)}
    features, splits, modes, members = [], [], [], []
    ends: dict[str, list[tuple[int, int]]] = {"true": [], "false": []}
    for node in [*map(int, inner), *single]:
        feature, threshold, left, right, number = nodes[node]
        features.append(int(feature))
        for side, successor in (("true", int(left)), ("false", int(right))):
            leaf = bool(is_leaf[successor])
            at = leaf_number[successor] if leaf else inner_number[successor]
            ends[side].append((at, int(leaf)))
        if number >= 0:
            modes.append(_MEMBER)
            splits.append(0.0)
            members += [*np.flatnonzero(sets[int(number)]).astype(float), np.nan]
        else:
            modes.append(_LEAF_OR_EQUAL)
            splits.append(0.0 if node in single else float(threshold))
    out = {
        "aggregate_function": 1,  # sum
        "post_transform": 0,
        "tree_roots": [inner_number[int(root)] for root in roots],
        "nodes_featureids": features,
        "nodes_splits": np.array(splits, dtype=np.float64),
        "nodes_modes": np.array(modes, dtype=np.uint8),
        "nodes_truenodeids": [at for at, _ in ends["true"]],
        "nodes_trueleafs": [leaf for _, leaf in ends["true"]],
        "nodes_falsenodeids": [at for at, _ in ends["false"]],
        "nodes_falseleafs": [leaf for _, leaf in ends["false"]],
        "leaf_targetids": target_of[leaves].tolist(),
        "leaf_weights": nodes[leaves, 1].astype(np.float64),
    }
    if members:
        out["membership_values"] = np.array(members, dtype=np.float64)
    return out
