"""The table of hyper-parameters agrees with the estimators that are documented from it."""

import inspect

import pytest

import fairspan
from fairspan.inputs.config import PARAMETERS, read_config
from fairspan.method.problem import FitConfig

ESTIMATORS = [
    fairspan.FairRepresentation,
    fairspan.FairRidge,
    fairspan.FairRidgeClassifier,
    fairspan.FairGPRegressor,
    fairspan.FairGPClassifier,
]


def entries(doc):
    """Entries of the section Parameters, by name."""
    section = doc.split("Parameters\n----------\n")[1].split("\n\nAttributes\n")[0]
    heads = [line for line in section.splitlines() if line and not line.startswith(" ")]
    return dict(head.split(" : ", 1) for head in heads)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_parameter_is_documented_in_the_order_of_the_signature(cls):
    names = list(inspect.signature(cls).parameters)
    assert list(entries(cls.__doc__)) == names
    of_classifiers = {"equalize", "selection_rate", "cost_matrix"}
    assert set(PARAMETERS) - (set() if "equalize" in names else of_classifiers) <= set(names)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_documented_defaults_are_those_of_the_signature(cls):
    for name, text in entries(cls.__doc__).items():
        default = inspect.signature(cls).parameters[name].default
        if "default=" in text:
            assert repr(default).replace("'", '"') == text.split("default=")[1], name
        else:
            assert default is None, name


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_record_of_a_fit_has_every_parameter(cls):
    est = cls()
    config = read_config(est)
    assert isinstance(config, FitConfig)
    for name, value in est.get_params(deep=False).items():
        assert getattr(config, name) == value
    assert config.estimator == cls.__name__


@pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=PARAMETERS)
def test_a_parameter_has_a_sentence_for_short_helps(parameter):
    assert parameter.sentence.endswith(".")
    assert parameter.text.startswith(parameter.sentence[:-1])
