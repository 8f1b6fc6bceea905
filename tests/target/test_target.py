"""Targets from text, dicts, JSON and tags."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
import threading
from typing import ClassVar

import pytest

import tscript
from tscript.target import Target, cuda, list_tags, register_tag
from tscript.target import target as target_module
from tscript.target.kinds import DEVICE_CODES, KINDS


def test_text_dict_and_json_give_the_same_target() -> None:
    text = Target("llvm -mcpu=skylake-avx512 -num-cores=4 -mattr=+avx512vnni,-amx-tile")
    same = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 4, "mattr": ["+avx512vnni", "-amx-tile"]})
    assert text == same == Target(text.to_json()) == Target(text.export()) == Target(str(text)) == Target(text)
    assert hash(text) == hash(same) and len({text, same}) == 1
    assert text.attrs["num-cores"] == 4 and text.mcpu == "skylake-avx512" and text.mattr == ["+avx512vnni", "-amx-tile"]
    assert text != Target("llvm") and text != "llvm"
    assert text != Target(text, host="llvm") and text != Target({**text.export(), "keys": ["x86", "cpu"]})


def test_copies_and_pickles_are_equal() -> None:
    t = Target("nvidia/jetson-agx-orin-64gb")
    for other in (copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t)), Target(json.loads(t.to_json()))):
        assert other == t and other.tag == t.tag and other.host == t.host and hash(other) == hash(t)


def test_a_target_does_not_change() -> None:
    t = Target("llvm -mattr=+avx2")
    with pytest.raises(AttributeError, match="a target never changes, so 'host' cannot be set"):
        t.host = Target("llvm")
    with pytest.raises(TypeError):
        t.attrs["mcpu"] = "znver4"
    t.mattr.append("+fma")
    t.export()["mattr"].append("+fma")
    assert t.mattr == ["+avx2"] and t.export()["mattr"] == ["+avx2"]


def test_printing_sorts_attributes() -> None:
    assert str(Target("llvm -num-cores=4 -mcpu=znver4")) == "llvm -keys=cpu -mcpu=znver4 -num-cores=4"
    assert (
        str(Target("cuda -arch=sm_90")) == "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"
    )
    assert str(Target({"kind": "vulkan", "supports_float16": True, "max_num_threads": 64})) == (
        "vulkan -keys=vulkan,gpu -max_num_threads=64 -supports_float16=1 -thread_warp_size=1"
    )
    assert repr(Target("c", host="llvm -num-cores=2")) == "Target('c -keys=cpu', host='llvm -keys=cpu -num-cores=2')"


def test_values_that_hold_spaces_and_quotes_survive_printing() -> None:
    t = Target({"kind": "cuda", "model": 'GeForce "RTX" 40\'90 \\', "libs": ["a b", "c"]})
    assert Target(str(t)) == t
    assert Target("cuda -model='RTX 4090'").model == "RTX 4090"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_reads_back_from_its_three_forms(kind: str) -> None:
    values = {"int": 3, "str": "x", "bool": True, "list": ["+a", "-b"], "targets": ["llvm", "cuda -arch=sm_80"]}
    options = {k: values[v] for k, v in KINDS[kind].options.items() if k != "from_device"}
    special = {"arch": "sm_75", "vector-width": 256}
    t = Target({"kind": kind, **options, **{k: v for k, v in special.items() if k in options}})
    assert Target(str(t)) == t == Target(t.to_json()) == Target(t.export())
    assert set(options) - {"tag", "keys"} == set(t.attrs)
    assert t.get_kind_attr("device_type") == KINDS[kind].device_type == DEVICE_CODES[KINDS[kind].device]


def test_values_may_stand_apart_and_flags_alone() -> None:
    assert Target("llvm -mcpu znver4 -fast-math").attrs == {"mcpu": "znver4", "fast-math": True}
    assert Target("llvm --num-cores=1").attrs == Target("llvm --num-cores 1").attrs == {"num-cores": 1}
    assert Target("llvm -fast-math=false").attrs == {"fast-math": False}
    assert Target("cuda", host="llvm").host == Target("llvm")
    assert Target("cuda -host='llvm -num-cores=4'").host == Target("llvm -num-cores=4")


def test_keys_start_with_the_device() -> None:
    assert Target("llvm -device=arm_cpu").keys == ("arm_cpu", "cpu")
    assert Target("opencl -device=mali").keys == ("mali", "opencl", "gpu")
    assert Target("llvm -mtriple=aarch64-linux-gnu").keys == ("arm_cpu", "cpu")
    assert Target("llvm -mtriple=x86_64-linux-gnu").keys == ("cpu",)
    assert Target("llvm -keys=x86,cpu").keys == ("x86", "cpu")


def test_hosts() -> None:
    t = Target("cuda", host={"kind": "llvm", "num-cores": 4})
    assert t.with_host("llvm").host == Target("llvm") and t.host.attrs["num-cores"] == 4
    assert t.with_host("llvm").kind is t.kind and Target(t).host == t.host
    assert Target("nvidia/jetson-orin-nano").host.attrs["num-cores"] == 6
    assert Target({"kind": "cuda", "host": {"kind": "llvm", "num-cores": 4}}) == t
    with pytest.raises(ValueError, match="the host of a target is a CPU, such as 'llvm', not 'cuda'"):
        Target("llvm", host="cuda")


def test_the_current_target_is_that_of_the_innermost_context() -> None:
    assert Target.current() is None
    with Target("llvm") as outer:
        assert Target.current() is outer
        with Target("cuda") as inner:
            assert Target.current() is inner
            assert Target.target_or_current(None) is inner and Target.target_or_current("c") == Target("c")
        assert Target.current() is outer
        with outer, pytest.raises(ZeroDivisionError), inner:
            raise ZeroDivisionError
        assert Target.current() is outer
        seen: list[object] = []
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
        assert seen == [None]
    assert Target.canon_target(None) is None and Target.canon_target(outer) is outer
    with pytest.raises(ValueError, match="no current target"):
        Target.current(allow_none=False)
    with pytest.raises(ValueError, match="no current target"):
        Target.target_or_current(None)


def test_members_of_gpu_targets() -> None:
    t = Target("nvidia/geforce-rtx-4090")
    assert (t.arch, t.tag, t.keys, t.model) == ("sm_89", "nvidia/geforce-rtx-4090", ("cuda", "gpu"), "unknown")
    assert (t.max_num_threads, t.thread_warp_size, t.max_shared_memory_per_block) == (1024, 32, 49152)
    assert (t.max_block_size_x, t.max_block_size_y, t.max_function_args) == (1024, 1024, 0)
    assert t.l2_cache_size_bytes == 75497472 and t.supports_integer_dot_product and not t.supports_cooperative_matrix
    assert t.get_target_device_type() == 2 and t.libs == [] and t.device_name == "" and t.vtcm_capacity == 0
    assert Target("vulkan -max_block_size_x=64 -supports_cooperative_matrix=1").max_block_size_x == 64
    assert Target("cuda -target_device_type=13").get_target_device_type() == 13
    assert not Target("cuda -arch=sm_60").supports_integer_dot_product
    assert Target("metal").max_function_args == 31
    # Tuning needs these two, and the bare kind leaves them open.
    assert not {"max_threads_per_block", "max_shared_memory_per_block"} & set(Target("cuda").attrs)


def test_what_a_target_does_not_tell_is_an_error() -> None:
    with pytest.raises(AttributeError, match="does not tell max_shared_memory_per_block; give it as -max_shared"):
        _ = Target("cuda").max_shared_memory_per_block
    with pytest.raises(AttributeError, match="'llvm -keys=cpu' does not tell max_num_threads"):
        _ = Target("llvm").max_num_threads
    with pytest.raises(ValueError, match="a target kind does not tell 'speed'; choose from name"):
        Target("llvm").get_kind_attr("speed")


def test_features_follow_the_cpu_and_its_changes() -> None:
    assert {"avx512f", "avx512vnni"} <= Target("llvm -mcpu=cascadelake").features
    assert "avx512vnni" not in Target("aws/cpu/c5.9xlarge").features
    assert "avx512vnni" in Target("aws/cpu/c5.12xlarge").features
    assert Target("llvm -mcpu=haswell -mattr=+avx512f,-fma").features >= {"avx2", "avx512f"}
    assert "fma" not in Target("llvm -mcpu=haswell -mattr=+avx512f,-fma").features
    assert Target("cuda").features == frozenset() == Target("llvm -mtriple=riscv64-linux-gnu").features
    assert Target("llvm").features and Target("llvm -mattr=+made-up").features == {*Target("llvm").features, "made-up"}


def test_targets_do_not_load_llvm_until_asked_about_this_cpu() -> None:
    code = (
        "import sys, tscript; t = tscript.target.Target('llvm -mcpu=haswell'); t.features; str(t); hash(t); "
        "assert 'llvmlite' not in sys.modules; tscript.target.Target('llvm').features; "
        "assert 'llvmlite' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_target_of_a_device() -> None:
    here = Target.from_device("cpu")
    assert here.kind.name == "llvm" and here.attrs["num-cores"] >= 1 and here == Target.from_device(tscript.cpu(0))
    assert Target("llvm -from_device=0").attrs["num-cores"] == here.attrs["num-cores"]
    assert Target("llvm -from_device=0 -num-cores=77").attrs["num-cores"] == 77
    if tscript.cuda().exist:
        gpu = Target.from_device(tscript.cuda())
        assert re.fullmatch(r"sm_\d+", gpu.arch) and gpu.max_shared_memory_per_block >= 1 << 14
        assert gpu.attrs["max_threads_per_block"] == gpu.max_num_threads >= 512
    with pytest.raises(ValueError, match=r"no CUDA device 4321 here|no CUDA driver here"):
        Target.from_device("cuda:4321")
    with pytest.raises(ValueError, match="made from the devices 'cpu' and 'cuda', not from 'tpu'"):
        Target.from_device("tpu")
    with pytest.raises(ValueError, match="a device 1 of kind 'llvm' cannot be asked"):
        Target.from_device("cpu:1")


class Driver:
    """A CUDA driver with one GPU."""

    facts: ClassVar = {1: 1024, 8: 49152, 10: 32, 12: 65536, 38: 41943040, 75: 8, 76: 6}

    def cuInit(self, flags):
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = 1
        return 0

    def cuDeviceGet(self, device, index):
        device._obj.value = index
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):
        if attribute not in self.facts:
            return 1
        value._obj.value = self.facts[attribute]
        return 0


def test_the_target_of_a_gpu_holds_what_its_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tscript.target.detect.ctypes.CDLL", lambda name: Driver())
    expected = Target(
        "cuda -arch=sm_86 -max_threads_per_block=1024 -max_shared_memory_per_block=49152 -registers_per_block=65536 "
        "-l2_cache_size_bytes=41943040"
    )
    assert Target.from_device("cuda") == Target.from_device("cuda:0") == Target.from_device(tscript.cuda()) == expected
    asked = Target("cuda -from_device=0 -arch=sm_80")
    assert asked.arch == "sm_80" and asked.l2_cache_size_bytes == 41943040
    with pytest.raises(ValueError, match=r"there is no CUDA device 1 here \(devices found: 1\)"):
        Target.from_device("cuda:1")
    monkeypatch.delitem(Driver.facts, 38)
    with pytest.raises(ValueError, match="CUDA device 0 does not tell its attribute 38"):
        Target.from_device("cuda")


@pytest.mark.parametrize("tag", sorted(list_tags()))
def test_every_tag_is_a_target_that_reads_back(tag: str) -> None:
    t = Target(tag)
    assert (
        t.tag == tag
        and Target(t.to_json()) == t
        and Target(str(t)).with_host(t.host or "llvm") == t.with_host(t.host or "llvm")
    )
    if tag.startswith("nvidia/"):
        assert t.keys == ("cuda", "gpu") and t.attrs["max_threads_per_block"] == 1024
        assert t.attrs["registers_per_block"] == (
            32768
            if tag in ("nvidia/jetson-nano", "nvidia/jetson-tx1", "nvidia/jetson-tx2", "nvidia/tegra-x1")
            else 65536
        )


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("nvidia/nvidia-h100", "-arch=sm_90a -l2_cache_size_bytes=52428800"),
        ("nvidia/nvidia-a100", "-arch=sm_80 -l2_cache_size_bytes=41943040"),
        ("nvidia/rtx-a6000", "-arch=sm_86"),
        ("nvidia/quadro-rtx-5000", "-arch=sm_75"),
        ("nvidia/nvidia-v100", "-arch=sm_70"),
        ("nvidia/geforce-gtx-1070-ti", "-arch=sm_61"),
        ("nvidia/tesla-p100", "-arch=sm_60"),
        ("nvidia/geforce-gtx-970", "-arch=sm_52"),
        ("nvidia/jetson-tx2", "-arch=sm_62"),
        ("nvidia/jetson-agx-xavier", "-arch=sm_72"),
        ("raspberry-pi/4b-aarch64", "-mattr=+neon -mcpu=cortex-a72 -mtriple=aarch64-linux-gnu -num-cores=4"),
        ("aws/cpu/c5.large", "-keys=x86,cpu -mcpu=skylake-avx512 -num-cores=1"),
        ("aws/cpu/c5.24xlarge", "-keys=x86,cpu -mcpu=cascadelake -num-cores=48"),
        ("apple/m2-gpu", "-max_num_threads=1024 -max_shared_memory_per_block=32768 -max_threads_per_block=1024"),
        ("apple/m1-gpu-restricted", "-max_threads_per_block=256 -thread_warp_size=32"),
    ],
)
def test_tags_hold_what_the_hardware_has(tag: str, text: str) -> None:
    assert set(text.split()) <= set(str(Target(tag)).split())


def test_a_tag_can_be_changed_and_registered() -> None:
    t = Target("nvidia/nvidia-a100 -arch=sm_90 -max_threads_per_block 512")
    assert t.arch == "sm_90" and t.attrs["max_threads_per_block"] == 512 and t.l2_cache_size_bytes == 41943040
    assert Target({"tag": "nvidia/nvidia-a100", "arch": "sm_90", "max_threads_per_block": 512}) == t
    mine = register_tag("test/mine", {"kind": "llvm", "num-cores": 3}, override=True)
    assert mine == Target("llvm -num-cores=3") == Target("test/mine") and "test/mine" in list_tags()
    with pytest.raises(ValueError, match="the tag 'test/mine' is taken; pass override=True"):
        tscript.target.tag.register_tag("test/mine", "llvm")
    assert register_tag("test/mine", Target("c"), override=True).kind.name == "c"
    with pytest.raises(ValueError, match="no attribute 'cores'"):
        register_tag("test/bad", {"kind": "llvm", "cores": 3})
    assert "test/bad" not in list_tags()
    for name, problem in (
        ("llvm", "name of a target kind"),
        ("two words", "cannot name a target"),
        ("", "cannot name"),
    ):
        with pytest.raises(ValueError, match=problem):
            register_tag(name, "llvm")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lvm", "unknown target kind 'lvm'.*did you mean 'llvm'"),
        ("llvm -num-core=4", "no attribute 'num-core' .did you mean 'num-cores'"),
        ("cuda -max_thread_per_block=4", "did you mean 'max_threads_per_block' or 'max_shared_memory_per_block'"),
        ("nvidia/geforce-rtx-4095", "unknown target tag .*did you mean 'nvidia/geforce-rtx-4090'"),
        ("nvidia/h100", "did you mean 'nvidia/nvidia-h100'"),
        ("zzz/1", r"unknown target tag 'zzz/1'; tscript.target.tag.list_tags\(\) lists all"),
        ("llvm -num-cores=four", "takes a value of type int, not 'four'"),
        ("llvm -num-cores=4.5", "takes a value of type int, not '4.5'"),
        ("llvm -num-cores=0", "'num-cores' .* is '0', but there is at least 1 core"),
        ("llvm -vector-width=100", "vectors have 64, 128, 256 or 512 bits"),
        ("llvm -opt-level=4", "levels are 0, 1, 2 and 3"),
        ("llvm -mattr=avx2", r"'avx2' neither switches a feature on \(\+avx2\) nor off \(-avx2\)"),
        ("llvm -fast-math=maybe", "takes a value of type bool, not 'maybe'"),
        ("cuda -arch=90", "is '90', but it is written like sm_90"),
        ("composite -devices=cuda", "takes a value of type list of targets, not 'cuda'"),
        ("composite -devices='[1'", "takes a value of type list of targets"),
        ("llvm -mcpu", "-mcpu needs a value, as in -mcpu=name"),
        ("llvm -mcpu -num-cores=4", "-mcpu needs a value"),
        ("llvm -num-cores=4 -num-cores=5", "'num-cores' is given twice"),
        ("llvm num-cores", "'num-cores' is no attribute"),
        ("llvm -", "'-' is no attribute"),
        ("llvm -mcpu='x", "cannot be read: no closing quotation"),
        ("", "the target is empty"),
        ("{bad", "no valid JSON"),
        ('{"num-cores": 4}', "a target needs a kind, such as 'llvm' or 'cuda', or a tag"),
        ('{"kind": "llvm", "num-cores": true}', "takes a value of type int, not True"),
        ('{"kind": "llvm", "num-cores": 4.0}', "takes a value of type int, not 4.0"),
        ('{"kind": "llvm", "mcpu": 5}', "takes a value of type str, not 5"),
        ('{"kind": "llvm", "mattr": [1]}', r"takes a value of type list of texts, not \[1\]"),
        ('{"kind": "llvm", "keys": 1}', "'keys' .* takes a value of type list of texts, not 1"),
        ('{"kind": 3}', "a target needs a kind"),
    ],
)
def test_mistakes_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Target(text)


def test_what_is_no_target_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a target is text, a mapping or another target, not int"):
        Target(5)
    with pytest.raises(TypeError, match="not NoneType"):
        Target(None)


def test_functions_make_the_targets_of_families() -> None:
    t = tscript.target
    assert cuda(model="a10", arch="sm_86") == Target("cuda -model=a10 -arch=sm_86")
    assert t.cuda(options="-arch=sm_80 -max_threads_per_block=1024").attrs["max_threads_per_block"] == 1024
    assert t.cuda(options=["-arch=sm_80", "-registers_per_block=65536"]).arch == "sm_80"
    assert t.arm_cpu("rk3399") == Target(
        "llvm -device=arm_cpu -model=rk3399 -mtriple=aarch64-linux-gnu -mattr=+neon -keys=arm_cpu,cpu"
    )
    assert t.arm_cpu("else", "-mcpu=cortex-a76").mcpu == "cortex-a76" and t.rasp().model == "bcm2837"
    assert t.mali().keys == ("mali", "opencl", "gpu") and t.bifrost("g72").model == "g72"
    assert t.intel_graphics().thread_warp_size == 16 and t.rocm("gfx90a").model == "gfx90a"
    assert t.riscv_cpu("sifive-u74").mcpu == "sifive-u74" and t.riscv_cpu().attrs["mabi"] == "lp64d"
    assert t.hexagon("v69", hvx=64).mattr == ["+hvxv69", "+hvx-length64b"] and t.hexagon("v65").vtcm_capacity == 0
    assert t.stm32("stm32H7xx").mcpu == "cortex-m7"
    assert t.adreno().keys == ("adreno", "opencl", "gpu") and t.adreno(backend="vulkan").kind.name == "vulkan"
    for call, message in (
        (lambda: t.riscv_cpu("sifive-u5"), "unknown RISC-V model .*did you mean 'sifive-u54'"),
        (lambda: t.hexagon("v1"), "unknown Hexagon version 'v1'; choose from v65"),
        (lambda: t.hexagon(hvx=3), "64 or 128 bytes"),
        (lambda: t.stm32("stm32H7"), "did you mean 'stm32H7xx'"),
        (lambda: t.adreno(backend="cuda"), "'opencl' or 'vulkan', not 'cuda'"),
        (lambda: t.cuda(options="-archs=1"), "no attribute 'archs'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_kinds_list_the_types_of_their_options() -> None:
    kind = Target("llvm").kind
    assert kind.options["num-cores"] == "int" and kind.options["mattr"] == "list" and str(kind) == "llvm"
    assert Target.list_kinds() == list(KINDS) and tscript.target.Target is target_module.Target
