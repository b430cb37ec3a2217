"""`seams`: the overlay finds its targets by path and name, joins them when they are imported, or refuses."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
import upstream
from refused import assert_says, refusal_of

import draftwire_overlay
from draftwire import seams
from draftwire.seams import Seam, find_seams, install, join, join_pending, overlay_modules
from draftwire_overlay.srt.configs.model_config import DEEPSEEK_FAMILY

# What the overlay is for; a file that loses its hook must not go unnoticed.
WIRING = {
    "sglang.srt.configs.model_config.ModelConfig.from_server_args",
    "sglang.srt.layers.logits_processor.LogitsProcessor.forward",
    "sglang.srt.model_executor.model_runner.ModelRunner.forward",
    "sglang.srt.models.deepseek_v2.DeepseekV2ForCausalLM.set_eagle3_layers_to_capture",
    "sglang.srt.server_args.ServerArgs.check_server_args",
    "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.init_cuda_graphs",
}


# Discovery.


def test_every_seam_is_found():
    found = {str(seam) for seam in find_seams()}
    assert found >= WIRING
    assert len(found) == len(find_seams())


def test_targets_are_derived_from_path_and_name():
    root = Path(next(iter(draftwire_overlay.__path__)))
    files = {file for file in root.rglob("*.py") if "__pycache__" not in file.parts}
    modules = dict(overlay_modules())
    assert len(modules) == len(files)
    for overlay, target in modules.items():
        assert overlay.removeprefix("draftwire_overlay.") == target.removeprefix("sglang.")
        assert root.joinpath(*target.split(".")[1:]).with_suffix(".py") in files
    for seam in find_seams():
        assert seam.body.__module__ == seam.module.replace("sglang", "draftwire_overlay", 1)
        assert seam.body.__qualname__ == f"{seam.owner}.{seam.name}"


def test_the_overlay_owns_nothing_named_sglang():
    """An __init__.py anywhere below it would shadow the real package where its folder is on the path."""
    assert not list(Path(next(iter(draftwire_overlay.__path__))).rglob("__init__.py"))


# Joining, on modules that these tests write.


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """`fake(code, name)`: a module on the path, not imported; what was installed for it goes with the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, seams._AfterImport)])
    monkeypatch.setattr(seams, "_pending", {})
    written: list[str] = []

    def write(code: str, name: str = "fake_engine") -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
        importlib.invalidate_caches()
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


ENGINE = """
    class Engine:
        def step(self, tokens, scale=1):
            '''Upstream's words.'''
            return tokens * scale

        @staticmethod
        def build(args, draft=False):
            return [args, draft]

        @classmethod
        def name(cls):
            return cls.__name__

        size = 7

    class Child(Engine):
        pass
"""


def wrap(original, *args, **kwargs):
    return ("wired", original(*args, **kwargs))


def seam(name: str, owner: str = "Engine", module: str = "fake_engine") -> Seam:
    return Seam(module, owner, name, wrap)


def engine() -> ModuleType:
    return importlib.import_module("fake_engine")


def test_a_method_is_joined_with_its_arguments_and_its_name(fake):
    fake(ENGINE)
    module = engine()
    join(seam("step"), module)
    assert module.Engine().step(2, scale=3) == ("wired", 6)
    assert module.Engine.step.__name__ == "step"
    assert module.Engine.step.__doc__ == "Upstream's words."


def test_subclasses_inherit_the_joined_method(fake):
    fake(ENGINE)
    join(seam("step"), engine())
    assert engine().Child().step(2) == ("wired", 2)


def test_static_and_class_methods_stay_what_they_are(fake):
    fake(ENGINE)
    module = engine()
    join(seam("build"), module)
    join(seam("name"), module)
    assert isinstance(vars(module.Engine)["build"], staticmethod)
    assert isinstance(vars(module.Engine)["name"], classmethod)
    assert module.Engine.build("a", draft=True) == module.Engine().build("a", True) == ("wired", ["a", True])
    assert module.Child.name() == ("wired", "Child")


def test_joining_twice_wraps_once(fake):
    fake(ENGINE)
    for _ in range(3):
        join(seam("step"), engine())
        join(seam("build"), engine())
    assert engine().Engine().step(2) == ("wired", 2)
    assert engine().Engine.build(1) == ("wired", [1, False])


@pytest.mark.parametrize(
    ("missing", "found"),
    [
        (seam("stride"), "no such method"),
        (seam("step", owner="Motor"), "no such class"),
        (seam("step", owner="Child"), "no such method"),
        (seam("size"), "no such method, but 7"),
    ],
)
def test_a_target_that_is_not_there_is_refused(missing, found, fake, tmp_path):
    fake(ENGINE)
    line = refusal_of(join, missing, engine())
    where = str(tmp_path / "fake_engine.py")
    assert_says(line, f"the method {missing}", f"found {found}", where, "install a matching draftwire", "DRAFTWIRE=off")


def test_a_loaded_module_is_joined_at_once(fake):
    fake(ENGINE)
    module = engine()
    install([seam("step")])
    assert module.Engine().step(2) == ("wired", 2)


def test_an_import_to_come_is_joined_when_it_has_run(fake):
    fake(ENGINE)
    install([seam("step"), seam("build")])
    assert "fake_engine" not in sys.modules
    assert engine().Engine().step(2) == ("wired", 2)
    assert engine().Engine.build(1) == ("wired", [1, False])


def test_a_name_taken_from_the_module_is_joined_too(fake):
    """Importers that copied the class hold the joined one: its methods change, not its name."""
    fake(ENGINE)
    fake("from fake_engine import Engine as Kept", "fake_user")
    install([seam("step")])
    assert importlib.import_module("fake_user").Kept().step(2) == ("wired", 2)


def test_a_renamed_target_is_refused_at_its_import(fake):
    fake(ENGINE.replace("def step", "def stride"))
    install([seam("step")])
    assert_says(refusal_of(engine), "fake_engine.Engine.step", "no such method", "DRAFTWIRE=off")


def test_a_renamed_target_is_refused_where_the_import_is_still_to_come(fake):
    fake(ENGINE.replace("class Engine", "class Motor").replace("(Engine)", "(Motor)"))
    install([seam("step")])
    assert_says(refusal_of(join_pending), "fake_engine.Engine.step", "no such class", "DRAFTWIRE=off")


def test_join_pending_imports_what_waits(fake):
    fake(ENGINE)
    install([seam("step")])
    join_pending()
    assert sys.modules["fake_engine"].Engine().step(2) == ("wired", 2)


def test_a_module_that_failed_once_is_joined_when_it_is_imported_again(fake, monkeypatch):
    """Upstream imports some modules inside `try`, and again when something they need is there."""
    fake("import os\nassert os.environ.get('FAKE_READY')\n" + textwrap.dedent(ENGINE))
    monkeypatch.delenv("FAKE_READY", raising=False)
    install([seam("step")])
    for _ in range(2):
        with pytest.raises(AssertionError):
            engine()
        assert "fake_engine" not in sys.modules
    monkeypatch.setenv("FAKE_READY", "1")
    assert engine().Engine().step(2) == ("wired", 2)


def test_a_module_that_is_not_there_stays_an_import_error(fake):
    fake(ENGINE)
    install([seam("step", module="fake_absent")])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fake_absent")
    assert engine().Engine().step(2) == 2


def test_a_second_installation_is_harmless(fake):
    fake(ENGINE)
    for _ in range(3):
        install([seam("step"), seam("build")])
    assert sum(isinstance(finder, seams._AfterImport) for finder in sys.meta_path) == 1
    assert engine().Engine().step(2) == ("wired", 2)
    install([seam("step")])
    assert engine().Engine().step(2) == ("wired", 2)


def test_a_reloaded_module_is_joined_again(fake):
    fake(ENGINE)
    install([seam("step")])
    importlib.reload(engine())
    assert engine().Engine().step(2) == ("wired", 2)


def test_an_import_inside_a_search_is_joined_too(fake, monkeypatch):
    """Another finder may import what it needs to answer, as may another thread meanwhile."""
    fake(ENGINE)
    fake(ENGINE, "fake_other")

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "fake_engine":
                importlib.import_module("fake_other")

    install([seam("step"), seam("step", module="fake_other")])
    monkeypatch.setattr(sys, "meta_path", [sys.meta_path[0], Finder(), *sys.meta_path[1:]])
    assert engine().Engine().step(2) == ("wired", 2)
    assert sys.modules["fake_other"].Engine().step(2) == ("wired", 2)


def test_other_imports_are_not_touched(fake):
    fake(ENGINE)
    fake("value = 1", "fake_other")
    install([seam("step")])
    assert importlib.import_module("fake_other").value == 1


# What the overlay relies on in a release, read from its sources.


def parameters(node: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in node.args.args]


def assert_every_seam_is_there(tree: Path) -> None:
    for found in find_seams():
        assert upstream.find_method(tree, found.module, found.owner, found.name), f"{found} is not in {tree}"


def assert_signatures(tree: Path) -> None:
    """Names and places of what the bodies take, pass on and read."""

    def method(module: str, owner: str, name: str) -> ast.FunctionDef:
        node = upstream.find_method(tree, f"sglang.srt.{module}", owner, name)
        assert node, f"{module}.{owner}.{name}"
        return node

    def decorators(node: ast.FunctionDef) -> list[str]:
        return [decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)]

    forward = parameters(method("layers.logits_processor", "LogitsProcessor", "forward"))
    assert forward[:6] == ["self", "input_ids", "hidden_states", "lm_head", "logits_metadata", "aux_hidden_states"]

    build = method("configs.model_config", "ModelConfig", "from_server_args")
    assert decorators(build) == ["staticmethod"]
    assert parameters(build)[:4] == ["server_args", "model_path", "model_revision", "is_draft_model"]
    assert len(build.args.defaults) >= 3

    assert parameters(method("speculative.eagle_worker_v2", "EAGLEWorkerV2", "init_cuda_graphs")) == ["self"]
    assert parameters(method("server_args", "ServerArgs", "check_server_args")) == ["self"]

    run = method("model_executor.model_runner", "ModelRunner", "forward")
    assert parameters(run)[:2] == ["self", "forward_batch"]
    assert ast.unparse(run.returns) == "ModelRunnerOutput"
    output = upstream.find_class(tree, "sglang.srt.model_executor.model_runner", "ModelRunnerOutput")
    fields = [field.target.id for field in output.body if isinstance(field, ast.AnnAssign)]
    assert {"logits_output", "can_run_graph"} <= set(fields)

    setter = method("models.deepseek_v2", "DeepseekV2ForCausalLM", "set_eagle3_layers_to_capture")
    assert parameters(setter) == ["self", "layer_ids"]
    assert [ast.unparse(default) for default in setter.args.defaults] == ["None"]


def assert_facts(tree: Path) -> None:
    """What is true of a release beyond signatures, and what would break where it no longer is."""
    # A config that is written into must be the ModelConfig's own: upstream keeps parsed ones.
    made = upstream.find_method(tree, "sglang.srt.configs.model_config", "ModelConfig", "__init__")
    assert "self.hf_config = copy.deepcopy(get_config(" in ast.unparse(made).replace("\n", "")

    # The states are passed to the logits processor by place.
    call = ast.unparse(upstream.find_method(tree, DEEPSEEK, "DeepseekV2ForCausalLM", "forward"))
    assert "self.logits_processor(input_ids, hidden_states, self.lm_head, forward_batch, aux_hidden_states)" in call

    # The setter is inherited by the family, and Kimi's wrapper passes the list on as it is.
    for name in DEEPSEEK_FAMILY - {"KimiK25ForConditionalGeneration"}:
        node = upstream.find_class(tree, DEEPSEEK, name)
        assert name == "DeepseekV2ForCausalLM" or [ast.unparse(b) for b in node.bases] == ["DeepseekV2ForCausalLM"]
        assert name == "DeepseekV2ForCausalLM" or not upstream.find_method(
            tree, DEEPSEEK, name, "set_eagle3_layers_to_capture"
        )
    kimi = "KimiK25ForConditionalGeneration"
    passes = upstream.find_method(tree, "sglang.srt.models.kimi_k25", kimi, "set_eagle3_layers_to_capture")
    assert "self.language_model.set_eagle3_layers_to_capture(layer_ids)" in ast.unparse(passes)

    # The launching process checks its arguments before it starts a worker, and loads plugins before that.
    launch = ast.unparse(upstream.parse(tree, "sglang.srt.entrypoints.engine"))
    assert launch.index("load_plugins()") < launch.index("server_args.check_server_args()")

    # A refusal passes the plugin loader: it catches Exception, and SystemExit is none.
    loader = upstream.parse(tree, "sglang.srt.plugins.__init__")
    handlers = [node for node in ast.walk(loader) if isinstance(node, ast.ExceptHandler)]
    assert handlers
    assert {ast.unparse(handler.type) for handler in handlers if handler.type} == {"Exception"}
    assert all(handler.type for handler in handlers)

    # A server without graphs runs the EAGLE worker's hook too.
    start = ast.unparse(upstream.parse(tree, "sglang.srt.managers.scheduler"))
    assert "self.draft_worker.init_cuda_graphs()" in start
    worker = ast.unparse(upstream.find_class(tree, "sglang.srt.speculative.eagle_worker_v2", "EagleDraftWorker"))
    assert "self.draft_runner = self.draft_worker.model_runner" in worker


DEEPSEEK = "sglang.srt.models.deepseek_v2"
CHECKS = [assert_every_seam_is_there, assert_signatures, assert_facts]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("release", ["installed", *filter(upstream.given, upstream.locked())])
def test_the_installed_and_each_given_release(check, release):
    check(upstream.installed() if release == "installed" else upstream.given(release))


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("release", upstream.locked())
def test_every_supported_release(check, release):
    check(upstream.download(release))


def test_the_locked_releases_are_the_supported_ones():
    """One statement of the range, in the package's metadata; every locked wheel lies in it, and so do its ends."""
    from packaging.specifiers import SpecifierSet

    from draftwire.plugin import known, supported

    assert all(known(release) for release in upstream.locked())
    ends = {specifier.version for specifier in SpecifierSet(supported())}
    assert ends == {"0.5.14", "0.5.23"} <= set(upstream.locked())
    assert known(importlib.metadata.version("sglang"))
