"""Models as files that predict without fairspan: ONNX, and npz for numpy."""

from fairspan.deployment.exporting import Exported, export

__all__ = ["Exported", "export"]
