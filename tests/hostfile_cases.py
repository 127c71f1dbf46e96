"""Texts of every host file format, and the result of reading each of them.

A host is its name and number of processes, ``-`` and ``?`` where they are not known,
with its chips and ranks where the text has them. What is found stands after a bar:
``line:column code``, or the code alone where there is no place.
"""

# ruff: noqa: E501 - a case is read best on one line

from __future__ import annotations

CASES: dict[str, dict[str, str]] = {
    "openmpi-hostfile": {
        "node01 slots=8\n": "node01 8",
        "user1@10.0.0.2 slots=4 max_slots=8\n": "10.0.0.2 4",
        "/* old */ ^node03\nfd00::12 slots=2 // spare\n": "fd00::12 2 | 1:11 RT138",
        "node01\n": "node01 ?",
        "node01\nnode01\n": "node01 2",
        "n1 slots = 2\n": "n1 2",
        "n1 max-slots=3\n": "n1 3",
        "n1 cpu=3 count_max=4\n": "n1 3",
        "n1 slots=2 port=22 user-name=bob\n": "n1 2",
        "n1 slots=2 port=70000\n": "refused | 1:17 RT132",
        "n1 slots=2 port=0\n": "refused | 1:17 RT132",
        "rank 0=n1 slot=0\nrank 1=n1 slot=1:0-3\n": "n1 2",
        "n1 slots=2#c\n// x\n/* a\n b */\nn2 slots=1": "n1 2; n2 1",
        "n1 slots=2\nn2 slots=1\n^n1\n": "n2 1 | 3:1 RT138",
        "n1.site slots=2\n": "n1.site 2",
        "n1 slots=2 // spare": "n1 2 | 1:12 RT138",
        "12 slots=1\n": "12 1",
        "": "refused | RT133",
        "# nothing\n": "refused | RT133",
        "n1\n^n1\n": "refused | RT133 | 2:1 RT138",
        "n1 slots=2 max_slots=1\n": "refused | 1:22 RT221",
        "n1 max_slots=1 slots=2\n": "refused | 1:14 RT221",
        "n1 slots=2\nn1\n": "refused | 2:1 RT220",
        "n1\nn1 slots=2\n": "refused | 2:1 RT220",
        "n1 slots=2\nn1 slots=3\n": "refused | 2:1 RT220",
        "n1.site slots=2\nn1 slots=1\n": "refused | 2:1 RT220",
        "n1 slots=2 slots=3\n": "refused | 1:12 RT130",
        "n1 slots=x\n": "refused | 1:10 RT132",
        "n1 slots=-1\n": "refused | 1:10 RT132",
        "n1 slots=2x\n": "refused | 1:10 RT132",
        "n1 slots=\n": "refused | 1:4 RT130",
        "n1 slots\n": "refused | 1:4 RT130",
        "n1 slots=0\n": "refused | 1:1 RT222",
        "n1:3\n": "refused | 1:1 RT131",
        "n1 n2\n": "refused | 1:4 RT130",
        "n1,n2 slots=2\n": "refused | 1:1 RT131",
        "+n0 slots=1\n": "refused | 1:1 RT228",
        "+e:2\n": "refused | 1:1 RT228",
        '"n1" slots=1\n': "refused | 1:1 RT130",
        "n1 slots=2\r\n": "refused | 1:11 RT130",
        "né slots=2\n": "refused | 1:1 RT131",
        "slots=2\n": "refused | 1:1 RT130",
        "count slots=2\n": "refused | 1:1 RT131",
        "007 slots=2\n": "refused | 1:1 RT131",
        "a@b@c slots=1\n": "refused | 1:1 RT131",
        "@n1 slots=1\n": "refused | 1:1 RT131",
        "n1 gpus=8\n": "refused | 1:4 RT130",
        "n1 slots=2 /* x\n": "refused | 1:12 RT130",
        "n1 /* x */ slots=2\n": "refused | 1:12 RT130",
        "n1 slots=1\u0662\n": "refused | 1:10 RT132",
        "n1 slots=1_0\n": "refused | 1:10 RT132",
        "n1 slots=9999999\n": "refused | 1:10 RT134",
        "n1 slots=99999999999999999999\n": "refused | 1:10 RT132",
        "^n1 slots=2\n": "refused | 1:1 RT138 | 1:5 RT130",
        "rank 0=\n": "refused | 1:6 RT130",
        "a/b slots=1\n": "refused | 1:2 RT130",
        "n1 slots=4\n\x00\n": "refused | 2:1 RT130",
        "rank 0=n1 slot=0\nn1 slots=2\n": "refused | 2:1 RT220",
    },
    "openmpi-rankfile": {
        "rank 0=node01 slot=0\n": "node01 1 chips 0 ranks 0",
        "rank 0=node02 slot=1:0-3\n": "node02 1 ranks 0",
        "rank 2=+n1 slot=0-1,4\nrank 0=n1 slot=0\nrank 1=n1 slot=1\n": "n1 2 chips 0,1 ranks 0,1; +n1 1 ranks 2",
        "rank 1=n2 slot=5\nrank 0=n1 slot=4\nrank 2=n1 slot=6\n": "n1 2 chips 4,6 ranks 0,2; n2 1 chips 5 ranks 1",
        "rank 0 = n1 slots = 3\n": "n1 1 chips 3 ranks 0",
        "rank 0=bob@n1 slot=0 # c\n": "n1 1 chips 0 ranks 0",
        "rank 0=n1 slot=0:1;1:0-2\n": "n1 1 ranks 0",
        "rank 0=n1 slot=*\n": "n1 1 ranks 0",
        "rank 0=n1.a slot=0\nrank 1=n1 slot=1\n": "n1.a 2 chips 0,1 ranks 0,1",
        "rank 00=n1 slot=01\n": "n1 1 chips 1 ranks 0",
        "rank 0=fd00::1 slot=0\n": "fd00::1 1 chips 0 ranks 0",
        "": "refused | RT133",
        "rank 0=n1\n": "refused | 1:8 RT130",
        "rank x=n1 slot=0\n": "refused | 1:6 RT132",
        "rank -1=n1 slot=0\n": "refused | 1:6 RT132",
        "rank 0=n1 slot=x\n": "refused | 1:16 RT132",
        "rank 0=n1 slot=1-0\n": "refused | 1:16 RT132",
        "rank 0=n1 slot=0-\n": "refused | 1:16 RT132",
        "rank 0=n1 slot=0 junk\n": "refused | 1:18 RT130",
        "rank 0=n1 slot=0 rank 1=n1 slot=1\n": "refused | 1:18 RT130",
        "rank 0=n1 slot=0\nrank 0=n1 slot=1\n": "refused | 2:6 RT224",
        "rank 0=n1 slot=0\nrank 3=n1 slot=1\n": "refused | 2:6 RT225",
        "rank 1=n1 slot=0\n": "refused | 1:6 RT225",
        "RANK 0=n1 SLOT=0\n": "refused | 1:1 RT130",
        "n1 slots=2\n": "refused | 1:1 RT130",
        'rank 0="n1" slot=0\n': "refused | 1:8 RT130",
        "rank 0=+x1 slot=0\n": "refused | 1:8 RT131",
        "rank 0=n1,n2 slot=0\n": "refused | 1:8 RT131",
        "rank 9999999=n1 slot=0\n": "refused | 1:6 RT134",
        "rank 0=n1 slot=0\nrank 1=n1 slot=0\n": "n1 2 ranks 0,1 | 2:16 RT229",
        "rank 0=n1 slot=\n": "refused | 1:15 RT130",
        "ranks 0=n1 slot=1\n": "refused | 1:1 RT130",
    },
    "mpich-machinefile": {
        "node01:8\n": "node01 8",
        "node02:4 user=alice # half\n": "node02 4 | 1:21 RT138",
        "node01:2\nnode01:2\nnode02\n": "node01 4; node02 1",
        "  # c\n\n n1 \n": "n1 1",
        "n1:2 binding=core user=bob\n": "n1 2",
        "n1:2\r\n": "n1 2",
        "": "refused | RT133",
        "n1:x\n": "refused | 1:4 RT132",
        "n1:2x\n": "refused | 1:4 RT132",
        "n1:-1\n": "refused | 1:4 RT132",
        "n1:0\n": "refused | 1:1 RT222",
        "n1:\n": "refused | 1:4 RT132",
        "n1: 2\n": "refused | 1:4 RT132 | 1:5 RT130",
        "n1:2:3\n": "refused | 1:6 RT132",
        ":3\n": "refused | 1:1 RT131",
        "fd00::1\n": "refused | 1:1 RT131",
        "n1:2\nn2\nn1:2\n": "refused | 3:1 RT220",
        "n1 slots=2\n": "refused | 1:4 RT130",
        "n1 user=\n": "refused | 1:4 RT130",
        "n1 user=a user=b\n": "refused | 1:11 RT130",
        "n1 n2\n": "refused | 1:4 RT130",
        "n1:1_0\n": "refused | 1:4 RT132",
        "n1:9999999\n": "refused | 1:4 RT134",
    },
    "deepspeed-hostfile": {
        "worker-0 slots=4\n": "worker-0 4 chips 0,1,2,3",
        "worker-1 slots=8 extra words\n": "worker-1 8 chips 0,1,2,3,4,5,6,7 | 1:18 RT139",
        "  worker-1 slots=2\n\n #c\n123.23.12.10   slots=2\n": "worker-1 2 chips 0,1; 123.23.12.10 2 chips 0,1",
        "w slots=2 # c\r\n": "w 2 chips 0,1",
        "": "refused | RT133",
        "w slots=2\nw slots=1\n": "refused | 2:1 RT220",
        "this is bad slots=1\n": "refused | 1:6 RT130",
        "missingslots\n": "refused | 1:1 RT130",
        "w slots = 2\n": "refused | 1:3 RT130",
        "w slots=2x\n": "refused | 1:9 RT132",
        "w slots=\n": "refused | 1:9 RT132",
        "w slots=\u0664\n": "refused | 1:9 RT132",
        "w slots=0\n": "refused | 1:1 RT222",
        "w:0 slots=2\n": "refused | 1:1 RT131",
        "u@w slots=2\n": "refused | 1:1 RT131",
        "w slots=2\nbad\nx slots=y\n": "refused | 2:1 RT130 | 3:9 RT132",
    },
    "slurm-nodelist": {
        "node[01-04]\n": "node01 ?; node02 ?; node03 ?; node04 ?",
        "rack[1-2]n[08-10],login\n": "rack1n08 ?; rack1n09 ?; rack1n10 ?; rack2n08 ?; rack2n09 ?; and 2 more",
        "n[001-1000],a[1]-ib,z9\n": "n001 ?; n002 ?; n003 ?; n004 ?; n005 ?; and 997 more",
        "n[01-02] 8(x2)\n": "n01 8; n02 8",
        "n[1-3]\n8(x2),4\n": "n1 8; n2 8; n3 4",
        "SLURM_JOB_NODELIST=n[1-2]\nSLURM_TASKS_PER_NODE=8(x2)\n": "n1 8; n2 8",
        "export SLURM_NODELIST='n1'\nexport SLURM_TASKS_PER_NODE=\"4\"\n": "n1 4",
        "n1,,n2\n": "n1 ?; n2 ?",
        "": "refused | RT133",
        "n[1-2] 8(x3)\n": "refused | 1:8 RT227",
        "n[1-2] 8\n": "refused | 1:8 RT227",
        "n[3-1]\n": "refused | 1:3 RT131",
        "n[1-2\n": "refused | 1:2 RT131",
        "n1,n1\n": "refused | 1:1 RT220",
        "n1\nn2\n": "refused | 2:1 RT132",
        "n[1-2] 8(2)\n": "refused | 1:8 RT132",
        "n[1-2] 8(x2) 9\n": "refused | 1:14 RT130",
        "n[1-2] 0(x2)\n": "refused | 1:8 RT222",
        "n1 99999999\n": "refused | 1:1 RT134",
        "n[1-2] 1(x999999999)\n": "refused | 1:8 RT134",
        "n[1-70000]\n": "refused | 1:3 RT131",
        "n1 -1\n": "refused | 1:4 RT132",
        "SLURM_NTASKS=4\n": "refused | 1:1 RT130",
    },
    "srun-hostfile": {
        "n1\nn1\nn2\n": "n1 2 ranks 0,1; n2 1 ranks 2",
        "n2\nn1\nn2\n": "n2 2 ranks 0,2; n1 1 ranks 1",
        "n1*2\nn2,n1\n": "n1 3 ranks 0,1,3; n2 1 ranks 2",
        "n[1-2]\n# c\n": "n1 1 ranks 0; n2 1 ranks 1",
        "n1 # c\n": "n1 1 ranks 0",
        "": "refused | RT133",
        "n1 n2\n": "refused | 1:4 RT130",
        "n1*0\n": "refused | 1:1 RT132",
        "n1*x\n": "refused | 1:1 RT131",
        "n1*9999999\n": "refused | 1:1 RT134",
        "n[1\n": "refused | 1:2 RT131",
    },
    "torchrun": {
        "torchrun --nnodes 2 --nproc-per-node 8 --node-rank 1 "
        "--master-addr n1 t.py\n": "n1 ?; - 8",
        "torchrun --nnodes 1 --nproc-per-node auto t.py\n": "- ?",
        "torchrun --standalone --nproc_per_node=8 t.py --nnodes 9\n": "- 8",
        "# host: a\n"
        "torchrun --nnodes=2 --nproc-per-node=2 --node-rank=0 "
        "--master-addr=a t.py\n"
        "# host: b\n"
        "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 "
        "--master-addr=a t.py\n": "a 2; b 4",
        "torchrun --nnodes 3 --nproc-per-node 8 --rdzv-backend c10d "
        "--rdzv-endpoint [fd00::1]:29400 t.py\n": "- 8; - 8; - 8",
        "torchrun --nnodes 2 --node-rank $SLURM_NODEID "
        "--nproc-per-node 4 --master-addr n1 t.py\n": "n1 4; - 4",
        "PET_NNODES=2 PET_NPROC_PER_NODE=4 python -m "
        "torch.distributed.run --node-rank=0 --rdzv-endpoint "
        "n1:29400 \\\n"
        "  t.py > log 2>&1 &\n": "n1 4; - ?",
        "srun -N2 torchrun --nnodes 2:2 --nproc-per-node gpu "
        "--rdzv-backend=c10d t.py\n": "- ?; - ?",
        "torchrun t.py\n": "- 1",
        "": "refused | RT133",
        "torchrun --nnodes 2:4 --rdzv-backend c10d --rdzv-endpoint "
        "[fd00::1]:29400 t.py\n": "refused | 1:19 RT228",
        "torchrun --nnodes 0 t.py\n": "refused | 1:19 RT132",
        "torchrun --nnodes 4:2 t.py\n": "refused | 1:19 RT132",
        "torchrun --nnodes 1:2:3 t.py\n": "refused | 1:19 RT132",
        "torchrun --nnodes two t.py\n": "refused | 1:19 RT132",
        "torchrun --nproc-per-node many t.py\n": "refused | 1:27 RT132",
        "torchrun --nproc-per-node 0 t.py\n": "refused | 1:27 RT222",
        "torchrun --nproc_per 8 t.py\n": "refused | 1:10 RT130",
        "torchrun --nproc-per-node\n": "refused | 1:10 RT130",
        "python train.py\n": "refused | 1:1 RT130",
        "torchrun --nnodes 2 --node-rank 2 t.py\n": "refused | 1:33 RT227",
        "torchrun --nnodes 2 --node-rank 0 t.py\n"
        "torchrun --nnodes 2 --node-rank 0 t.py\n": "refused | 2:33 RT224",
        "torchrun --nnodes 2 --node-rank 0 t.py\n"
        "torchrun --nnodes 3 --node-rank 1 t.py\n": "refused | 2:19 RT227",
        "torchrun --standalone --nnodes 2 t.py\n": "refused | 1:32 RT227",
        "torchrun --nnodes 2 --node-rank x t.py\n": "refused | 1:33 RT132",
        "torchrun --nnodes 2 --master-addr a,b t.py\n": "refused | 1:35 RT131",
        "torchrun --nnodes 2 --rdzv-endpoint fd00::1:29400 t.py\n": "refused | 1:37 RT131",
        "torchrun --nnodes 2 --rdzv-endpoint n1:99999 t.py\n": "refused | 1:40 RT132",
        "torchrun 'a\n": "refused | 1:10 RT130",
        "torchrun --nnodes 9999999 t.py\n": "refused | 1:19 RT134",
        "torchrun --nnodes 2 --node-rank -1 t.py\n": "refused | 1:33 RT132",
        "# host: n01\ntorchrun --nnodes 2 --node-rank 0 --nproc-per-node 4 t.py\n"
        "# host: n01\ntorchrun --nnodes 2 --node-rank 1 --nproc-per-node 4 t.py\n": (
            "refused | 3:9 RT220"
        ),
        "# host: n01\ntorchrun --nnodes 2 --node-rank 1 --master-addr n01 t.py\n": (
            "refused | 1:9 RT220"
        ),
    },
    "accelerate": {
        "{num_machines: 2, num_processes: 16, machine_rank: 0, "
        "main_process_ip: n1, main_process_port: 29500, "
        "distributed_type: MULTI_GPU}\n": "n1 8; - 8",
        "num_machines: 1\n"
        "num_processes: 2\n"
        "gpu_ids: 0,2\n"
        "distributed_type: MULTI_GPU\n": "- 2 chips 0,2",
        '{"num_machines": 1, "num_processes": 2, "gpu_ids": "all",\n'
        '\t"distributed_type": "MULTI_GPU"}\n': "- 2",
        "distributed_type: NO\n": "- 1",
        "": "refused | RT133",
        "num_machines: 2\n"
        "num_processes: 13\n"
        "distributed_type: MULTI_GPU\n"
        "main_process_ip: n1\n": "refused | 2:16 RT226",
        "num_processes: 2\n": "refused | 1:1 RT137",
        "num_machines: 2\n"
        "num_processes: 4\n"
        "distributed_type: MULTI_GPU\n": "refused | 1:1 RT137",
        "num_processes: 2\ndistributed_type: MULTI_GPU\nnum_gpus: 2\n": "refused | 3:1 RT137",
        "num_processes: '2'\ndistributed_type: MULTI_GPU\n": "refused | 1:16 RT137",
        "num_processes: 0\ndistributed_type: MULTI_GPU\n": "refused | 1:16 RT137",
        "num_processes: 2\ngpu_ids: 0,1,2\ndistributed_type: MULTI_GPU\n": "refused | 2:10 RT227",
        "num_processes: 2\ngpu_ids: 1,1\ndistributed_type: MULTI_GPU\n": "refused | 2:10 RT137",
        "num_processes: 2\ngpu_ids: a\ndistributed_type: MULTI_GPU\n": "refused | 2:10 RT137",
        "num_processes: 2\n"
        "num_processes: 4\n"
        "distributed_type: MULTI_GPU\n": "refused | 2:1 RT105",
        "num_machines: &a 2\nnum_processes: *a\n": "refused | 2:16 RT136",
        "num_processes: !!int 2\ndistributed_type: MULTI_GPU\n": "refused | 1:16 RT136",
        "<<: {num_processes: 2}\ndistributed_type: MULTI_GPU\n": "refused | 1:1 RT136",
        "num_processes: 2\n\tdistributed_type: MULTI_GPU\n": "refused | 2:1 RT135",
        "- 1\n": "refused | 1:1 RT137",
        "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: NO\n": "refused | 1:22 RT137",
        "num_machines: 2\n"
        "machine_rank: 2\n"
        "num_processes: 4\n"
        "main_process_ip: n1\n"
        "distributed_type: MULTI_GPU\n": "refused | 2:15 RT227",
        "distributed_type: NO\n---\ndistributed_type: NO\n": "refused | 3:1 RT137",
        "num_processes: 010\ndistributed_type: MULTI_GPU\n": "refused | 1:16 RT137",
        '{"num_processes": 2,}\n': "refused | 1:20 RT101",
        "num_processes: 2\n"
        "main_process_ip: 'a b'\n"
        "distributed_type: MULTI_GPU\n": "refused | 2:18 RT131",
        "num_processes: 99999999\ndistributed_type: MULTI_GPU\n": "refused | 1:16 RT134",
    },
    "paddle": {
        "python -m paddle.distributed.launch --ips 10.0.0.1,10.0.0.2 "
        "--devices 0,1,2,3 t.py\n": "10.0.0.1 4 chips 0,1,2,3; 10.0.0.2 4 chips 0,1,2,3",
        "python -m paddle.distributed.launch --master 10.0.0.1:6070 "
        "--nnodes 2 --gpus=0,1 t.py\n": "- 2 chips 0,1; - 2 chips 0,1",
        "python -m paddle.distributed.launch --nnodes=2 "
        "--nproc_per_node=8 t.py\n": "- 8; - 8",
        "python -m paddle.distributed.launch t.py\n": "- ?",
        "": "refused | RT133",
        "python -m paddle.distributed.launch --nnodes 2:3 t.py\n": "refused | 1:46 RT228",
        "python -m paddle.distributed.launch --ips a,a t.py\n": "refused | 1:45 RT220",
        "python -m paddle.distributed.launch --ips a,,b t.py\n": "refused | 1:45 RT131",
        "python -m paddle.distributed.launch --devices 0,x t.py\n": "refused | 1:49 RT132",
        "python -m paddle.distributed.launch --devices 0,1 "
        "--nproc_per_node 3 t.py\n": "refused | 1:68 RT227",
        "python -m paddle.distributed.launch --device 0 t.py\n": "refused | 1:37 RT130",
        "python t.py\n": "refused | 1:1 RT130",
        "python -m paddle.distributed.launch --nnodes 0 t.py\n": "refused | 1:46 RT132",
        "python -m paddle.distributed.launch a.py\n"
        "python -m paddle.distributed.launch b.py\n": "refused | 2:1 RT130",
        "python -m paddle.distributed.launch --devices 0,0 t.py\n": "refused | 1:49 RT130",
    },
    "paddle-endpoints": {
        "10.0.0.1:6070,10.0.0.1:6071": "10.0.0.1 2 ranks 0,1",
        "10.0.0.1:6070,10.0.0.2:6070\n": "10.0.0.1 1 ranks 0; 10.0.0.2 1 ranks 1",
        "10.0.0.1:6070,10.0.0.1:40123,10.0.0.2:6071\n": "10.0.0.1 2 ranks 0,1; 10.0.0.2 1 ranks 2",
        "export PADDLE_TRAINER_ENDPOINTS='[fd00::1]:1,[fd00::1]:2'\n": "fd00::1 2 ranks 0,1",
        "a:1,b:1,a:2": "a 2 ranks 0,2; b 1 ranks 1",
        "": "refused | RT133",
        "a:1,a:1": "refused | 1:5 RT220",
        "a:1,a": "refused | 1:5 RT132",
        "a:1,a:x": "refused | 1:7 RT132",
        "a:1,a:0": "refused | 1:7 RT132",
        "a:1,a:70000": "refused | 1:7 RT132",
        "a:1,,b:2": "refused | 1:5 RT131 | 1:5 RT132",
        "fd00::1:6070": "refused | 1:1 RT131",
        "a:1, b:2": "refused | 1:5 RT131",
    },
}
