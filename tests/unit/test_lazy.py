"""Names that are imported on first use: all exist, others are named, and the package itself is light."""

import subprocess
import sys

import pytest

import fairspan
from fairspan import estimators


@pytest.mark.parametrize("package", [fairspan, estimators], ids=["fairspan", "estimators"])
def test_every_name_exists_and_is_listed(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fairspan' has no attribute 'FairRidg'"):
        _ = fairspan.FairRidg
    assert not hasattr(estimators, "nothing")


def test_the_package_imports_nothing_and_its_modules_are_attributes():
    code = (
        "import sys, fairspan\n"
        "assert not {'numpy', 'sklearn'} & set(sys.modules)\n"
        "_ = fairspan.metrics, fairspan.method, fairspan.datasets.load_loans\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
