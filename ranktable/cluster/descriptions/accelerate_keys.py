"""Keys of accelerate's configurations; it refuses every other one.

Source: huggingface/accelerate, src/accelerate/commands/config/config_args.py.
"""

from __future__ import annotations

KEYS = frozenset(
    (
        *("compute_environment", "distributed_type", "mixed_precision", "use_cpu"),
        *("debug", "num_processes", "machine_rank", "num_machines", "gpu_ids"),
        *("main_process_ip", "main_process_port", "rdzv_backend", "same_network"),
        *("main_training_function", "enable_cpu_affinity", "fp8_config"),
        *("deepspeed_config", "fsdp_config", "tp_config", "megatron_lm_config"),
        *("ipex_config", "mpirun_config", "parallelism_config", "dynamo_config"),
        *("downcast_bf16", "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo"),
        *("command_file", "commands", "tpu_vm", "tpu_env"),
        # Of older versions, which are converted.
        *("fp16", "dynamo_backend"),
    )
)
