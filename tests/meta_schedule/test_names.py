"""Every name that users of the API know is there, and takes what they give it."""

from __future__ import annotations

import inspect
from operator import attrgetter

import pytest

from tscript import meta_schedule as ms

# Parameters in order, those after * by name only; what follows = is the default, where it is a plain value.
SIGNATURES = {
    "tune_tir": "mod, target, work_dir, max_trials_global, *, max_trials_per_task=None, num_trials_per_iter=64, "
    "builder='local', runner='local', database='json', cost_model='xgb', measure_callbacks='default', "
    "task_scheduler='gradient', space='post-order-apply', strategy='evolutionary', num_tuning_cores='physical', "
    "seed=None, module_equality='structural', special_space=None, post_optimization=False",
    "tir_integration.tune_tir": "mod, target, work_dir, max_trials_global",
    "tir_integration.compile_tir": "database, mod, target",
    "tune_tasks": "*, tasks, task_weights, work_dir, max_trials_global, max_trials_per_task=None, "
    "num_trials_per_iter=64, builder='local', runner='local', database='json', cost_model='xgb', "
    "measure_callbacks='default', task_scheduler='gradient', module_equality='structural', post_optimization=False",
    "TuneContext": "mod=None, *, target=None, space_generator=None, search_strategy=None, task_name='main', "
    "rand_state=-1, num_threads='physical', logger=None",
    "TuneContext.generate_design_space": "self",
    "TuneContext.pre_tuning": "self, max_trials, num_trials_per_iter=64, design_spaces=None, database=None, "
    "cost_model=None",
    "TuneContext.generate_measure_candidates": "self",
    "TuneContext.notify_runner_results": "self, measure_candidates, results",
    "TuneContext.post_tuning": "self",
    "TuneContext.clone": "self",
    "TuneConfig": "max_trials_global=None, num_trials_per_iter=64, max_trials_per_task=None, "
    "task_scheduler='gradient', strategy='evolutionary', task_scheduler_config=None, search_strategy_config=None, "
    "logger_config=None, adaptive_training=None",
    "Profiler": "",
    "Profiler.get": "self",
    "Profiler.table": "self",
    "Profiler.timeit": "name",
    "Profiler.current": "",
    "derived_object": "cls",
    "task_scheduler.GradientBased": "*, alpha=0.2, window_size=3, seed=-1",
    "task_scheduler.RoundRobin": "",
    "search_strategy.EvolutionarySearch": "*, population_size=512, init_measured_ratio=0.2, init_min_unmeasured=50, "
    "max_fail_count=5, genetic_num_iters=4, genetic_mutate_prob=0.85, genetic_max_fail_count=10, eps_greedy=0.05",
    "search_strategy.ReplayTrace": "max_fail_count=100",
    "search_strategy.ReplayFunc": "",
    "search_strategy.MeasureCandidate": "sch, args_info",
    "space_generator.ScheduleFn": "sch_fn, sch_rules='from-target', postprocs='from-target', "
    "mutator_probs='from-target'",
    "space_generator.PostOrderApply": "f_block_filter=None, sch_rules='from-target', postprocs='from-target', "
    "mutator_probs='from-target'",
    "space_generator.ScheduleUnion": "space_generators, sch_rules='from-target', postprocs='from-target', "
    "mutator_probs='from-target'",
    "schedule_rule.ApplyCustomRule": "",
    "schedule_rule.AutoInline": "into_producer, into_consumer, inline_const_tensor, disallow_if_then_else, "
    "require_injective, require_ordered, disallow_op=None",
    "schedule_rule.InlineConstantScalars": "",
    "schedule_rule.ReuseType": "req, levels, scope",
    "schedule_rule.MultiLevelTiling": "structure, tile_binds=None, max_innermost_factor=None, vector_load_lens=None, "
    "reuse_read=None, reuse_write=None, filter_fn=None",
    "schedule_rule.MultiLevelTilingWithIntrin": "intrin_name, structure, tile_binds=None, max_innermost_factor=None, "
    "vector_load_lens=None, reuse_read=None, reuse_write=None",
    "schedule_rule.MultiLevelTilingWideVector": "structure, vector_length_in_bits, max_innermost_factor=None, "
    "reuse_read=None, reuse_write=None",
    "schedule_rule.AddRFactor": "max_jobs_per_core=16, max_innermost_factor=None",
    "schedule_rule.CrossThreadReduction": "thread_extents",
    "schedule_rule.RandomComputeLocation": "",
    "schedule_rule.ParallelizeVectorizeUnroll": "max_jobs_per_core=16, max_vectorize_extent=16, "
    "unroll_max_steps=None, unroll_explicit=True",
    "schedule_rule.AutoBind": "max_threadblocks=256, thread_extents=?, max_threads_per_block=-1",
    "postproc.DisallowDynamicLoop": "",
    "postproc.DisallowAsyncStridedMemCopy": "",
    "postproc.RewriteCooperativeFetch": "",
    "postproc.RewriteUnboundBlock": "max_threadblocks=256",
    "postproc.RewriteParallelVectorizeUnroll": "",
    "postproc.RewriteReductionBlock": "",
    "postproc.RewriteTensorize": "vectorize_init_loop=False",
    "postproc.RewriteLayout": "",
    "postproc.VerifyGPUCode": "",
    "postproc.VerifyVTCMLimit": "",
    "mutator.MutateTileSize": "",
    "mutator.MutateUnroll": "",
    "mutator.MutateComputeLocation": "",
    "mutator.MutateParallel": "max_jobs_per_core",
    "mutator.MutateThreadBinding": "",
    "feature_extractor.PerStoreFeature": "buffers_per_store=5, arith_intensity_curve_num_samples=10, "
    "cache_line_bytes=64, extract_workload=False",
    "feature_extractor.PerStoreFeature.extract_from": "self, context, candidates",
    "feature_extractor.RandomFeatureExtractor": "*, feature_size=30, max_block_num=5, seed=0",
    "cost_model.XGBModel": "*, extractor='per-store-feature', config=?, num_warmup_samples=?, "
    "early_stopping_rounds=50, verbose_eval=25, average_peak_n=32, adaptive_training=True, num_tuning_cores=None, "
    "tree_method=None",
    "cost_model.XGBConfig": "max_depth=10, gamma=0.001, min_child_weight=0, eta=0.2, seed=43, nthread=None",
    "cost_model.RandomModel": "*, seed=None, max_range=100",
    "cost_model.CostModel.load": "self, path",
    "cost_model.CostModel.save": "self, path",
    "cost_model.CostModel.update": "self, context, candidates, results",
    "cost_model.CostModel.predict": "self, context, candidates",
    "builder.LocalBuilder": "*, max_workers=None, timeout_sec=30.0, f_build=None, f_export=None, initializer=None",
    "builder.BuilderInput": "mod, target, params=None",
    "builder.BuilderResult": "artifact_path, error_msg",
    "builder.Builder.build": "self, build_inputs",
    "runner.LocalRunner": "timeout_sec=30.0, evaluator_config=None, cooldown_sec=0.0, alloc_repeat=1, "
    "f_alloc_argument=None, f_run_evaluator=None, f_cleanup=None, initializer=None",
    "runner.RPCRunner": "rpc_config=None, evaluator_config=None, cooldown_sec=0.0, alloc_repeat=1, "
    "f_create_session=None, f_upload_module=None, f_alloc_argument=None, f_run_evaluator=None, f_cleanup=None, "
    "max_workers=1, initializer=None",
    "runner.RPCConfig": "tracker_host=None, tracker_port=None, tracker_key=None, session_priority=1, "
    "session_timeout_sec=10",
    "runner.EvaluatorConfig": "number=3, repeat=1, min_repeat_ms=100, enable_cpu_cache_flush=False",
    "runner.RunnerInput": "artifact_path, device_type, args_info",
    "runner.RunnerResult": "run_secs, error_msg",
    "runner.RunnerFuture": "f_done, f_result",
    "runner.RunnerFuture.done": "self",
    "runner.RunnerFuture.result": "self",
    "runner.Runner.run": "self, runner_inputs",
    "arg_info.TensorInfo": "dtype, shape",
    "measure_callback.MeasureCallback.apply": "self, task_scheduler, task_id, measure_candidates, builder_results, "
    "runner_results",
    "measure_callback.AddToDatabase": "",
    "measure_callback.RemoveBuildArtifact": "",
    "measure_callback.UpdateCostModel": "",
    "database.Workload": "mod, shash",
    "database.Workload.as_json": "self",
    "database.Workload.from_json": "json_obj",
    "database.TuningRecord": "trace, workload, run_secs=None, target=None, args_info=None",
    "database.TuningRecord.as_measure_candidate": "self",
    "database.TuningRecord.as_json": "self",
    "database.TuningRecord.from_json": "json_obj, workload",
    "database.MemoryDatabase": "module_equality='structural'",
    "database.JSONDatabase": "path_workload=None, path_tuning_record=None, *, work_dir=None, allow_missing=True, "
    "module_equality='structural'",
    "database.UnionDatabase": "*databases",
    "database.OrderedUnionDatabase": "*databases",
    "database.ScheduleFnDatabase": "schedule_fn, module_equality='structural'",
    "database.Database.commit_workload": "self, mod",
    "database.Database.has_workload": "self, mod",
    "database.Database.commit_tuning_record": "self, record",
    "database.Database.get_top_k": "self, workload, top_k",
    "database.Database.get_all_tuning_records": "self",
    "database.Database.query": "self, mod, target, *, workload_name='main', kind='schedule'",
    "database.Database.query_tuning_record": "self, mod, target, workload_name='main'",
    "database.Database.query_schedule": "self, mod, target, workload_name='main'",
    "database.Database.query_ir_module": "self, mod, target, workload_name='main'",
    "database.Database.dump_pruned": "self, destination",
    "database.Database.current": "",
}
ROLES = {
    "builder": ("Builder", ["local"]),
    "runner": ("Runner", ["local"]),
    "database": ("Database", ["json", "memory", "union", "ordered_union", "sqlite"]),
    "cost_model": ("CostModel", ["xgb", "random", "none"]),
    "measure_callback": ("MeasureCallback", ["default"]),
    "task_scheduler": ("TaskScheduler", ["gradient", "round-robin"]),
    "search_strategy": ("SearchStrategy", ["evolutionary", "replay-trace", "replay-func"]),
    "space_generator": ("SpaceGenerator", ["post-order-apply"]),
    "schedule_rule": ("ScheduleRule", ["llvm", "vnni", "avx512", "asimd", "dotprod", "cuda", "hexagon"]),
    "postproc": ("Postproc", ["llvm", "vnni", "avx512", "asimd", "dotprod", "cuda", "hexagon"]),
    "mutator": ("Mutator", ["llvm", "vnni", "avx512", "asimd", "dotprod", "cuda", "hexagon"]),
    "feature_extractor": ("FeatureExtractor", ["per-store-feature"]),
}


def parameters(text: str) -> list[tuple[str, bool, str]]:
    """Name, whether it must be given by name, and default of each."""
    found = []
    by_name = False
    for part in filter(None, (p.strip() for p in text.split(","))):
        if part == "*":
            by_name = True
            continue
        name, _, default = part.partition("=")
        found.append((name, by_name, default))
    return found


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    found = list(inspect.signature(attrgetter(name)(ms)).parameters.values())
    wanted = parameters(SIGNATURES[name])
    if wanted and wanted[0][0].startswith("*"):
        assert [p.kind for p in found] == [inspect.Parameter.VAR_POSITIONAL]
        return
    by_name = {p.name: p for p in found}
    for k, (parameter, keyword, default) in enumerate(wanted):
        assert parameter in by_name, f"{name} takes no {parameter}"
        p = by_name[parameter]
        if not keyword:
            assert found[k].name == parameter, f"{name} takes {found[k].name} where {parameter} is expected"
        if default and default != "?":
            assert repr(p.default) == default
    for p in found:
        if p.name not in {w[0] for w in wanted} and p.kind is not p.VAR_KEYWORD:
            assert p.default is not p.empty, f"{name} cannot be called without {p.name}"


@pytest.mark.parametrize("package", ROLES)
def test_words(package):
    role, words = ROLES[package]
    module = getattr(ms, package)
    base = getattr(module, role)
    assert hasattr(module, f"Py{role}")
    for word in words:
        options = {"work_dir": "."} if word in ("json", "sqlite") else {}
        if options:
            continue  # these make files, and have tests of their own
        base.create(word, **options)
    with pytest.raises((ValueError, TypeError), match="no-such-kind"):
        base.create("no-such-kind")
