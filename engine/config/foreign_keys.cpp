#include "engine/config/foreign_keys.h"

#include <array>

namespace strata {

std::span<const ForeignKey> foreign_keys() {
  static constexpr auto kKeys = std::to_array<ForeignKey>({
      // The model.
      {"base_model model_name_or_path model_name model_id pretrained_model_name_or_path model_path "
       "base_model_path hf_assets_path initial_load_path load_checkpoint_path model.name model.name_or_path",
       "model.path", "a folder, which hf download OWNER/NAME --local-dir FOLDER makes"},
      {"rope_scaling rope_theta moe_aux_loss_coef router_aux_loss_coef", "",
       "is read from the config.json of the model's folder"},
      {"trust_remote_code", "", "is not needed: no code of a model's folder is run"},
      {"resize_vocab resize_token_embeddings add_tokens special_tokens new_special_tokens", "",
       "has no counterpart: Strata adds no tokens to a model"},

      // The data.
      {"dataset datasets dataset_name dataset_path dataset_dir train_file train_files train_data_path "
       "train_path train_dataset data_files data_path",
       "data.path", "files or patterns; the keys of records say their form"},
      {"eval_dataset test_datasets validation_file validation_files eval_file valid_data_path val_data "
       "validation_dataset",
       "data.validation", ""},
      {"val_set_size val_size validation_split test_size val_ratio validation_ratio eval_split",
       "data.validation_fraction", "a part of 1; 0.05 if left out"},
      {"dataset_prepared_path tokenized_path dataset_cache data_cache_path", "data.cache",
       "token ids are kept there by what the texts contain"},
      {"tokenizer_name tokenizer_name_or_path tokenizer_model tokenizer_config", "data.tokenizer_path",
       "with data.tokenizer: auto"},
      {"sequence_len seq_len seq_length cutoff_len max_seq_length max_seq_len max_length model_max_length "
       "block_size context_length context_len",
       "data.sequence_length", "longer documents are cut into several sequences"},
      {"sample_packing packing neat_packing pack_sequences multipack pad_to_sequence_len",
       "data.packing: whole", "attention stays within each document"},
      {"interleave_probs mix_strategy blend data_weights dataset_weights", "data.sources",
       "several paths, each with a weight"},
      {"field_messages field_instruction field_input field_output text_column text_field dataset_text_field "
       "columns prompt_column response_column column_mapping",
       "data.fields", "such as {messages: dialogue}"},
      {"dataset_type formatting data_format", "data.format",
       "auto, which tells conversations, Alpaca, prompts and texts by their keys"},
      {"chat_template template conversation_template chat_template_jinja", "",
       "is always the chat template of the model's folder"},
      {"train_on_inputs train_on_prompt train_on_responses_only roles_to_train assistant_only_loss "
       "completion_only_loss mask_prompt mask_history train_on_eos",
       "",
       "cannot be chosen: completions and what the assistant says are trained on, unless a message says "
       "train: false"},
      {"message_property_mappings message_field_training tags default_system", "",
       "stands in the data: a message has role and content, or from and value, and may have train"},
      {"streaming max_samples max_train_samples", "", "has no counterpart: local files are read whole"},
      {"num_workers num_proc dataloader_num_workers dataset_num_proc preprocessing_num_workers "
       "dataset_processes",
       "train.threads", "left out, all cores"},

      // Training.
      {"max_steps train_steps num_train_steps total_num_steps train_iters max_iters total_steps "
       "training_steps num_steps num_training_steps",
       "train.steps", ""},
      {"num_train_epochs num_epochs n_epochs max_epochs", "train.epochs", "in place of train.steps"},
      {"batch_size", "train.batch",
       "it counts all sequences of a step, and train.microbatch those that pass the model at once"},
      {"train_batch_size global_batch_size total_batch_size effective_batch_size", "train.batch",
       "it counts all sequences of a step, over all ranks"},
      {"per_device_train_batch_size micro_batch_size train_micro_batch_size_per_gpu local_batch_size "
       "per_gpu_train_batch_size micro_batch device_train_microbatch_size pipeline_parallel_microbatch_size",
       "train.microbatch", "train.batch is microbatch × accumulation × data ranks"},
      {"gradient_accumulation_steps grad_accum_steps accumulate_grad_batches gradient_accumulation "
       "accumulation_steps grad_accum",
       "train.batch", "it counts all sequences of a step: microbatch × accumulation × data ranks"},
      {"per_device_eval_batch_size eval_batch_size eval_micro_batch_size", "train.microbatch",
       "held-out data pass in the same microbatches"},
      {"bf16 fp16 dtype torch_dtype mixed_precision mixed_precision_param compute_dtype params_dtype amp "
       "half precision bf16.enabled fp16.enabled use_bf16 use_fp16 pure_bf16",
       "train.precision", "bf16, fp16, fp8, fp32 or auto; weights have fp32 masters with each"},
      {"fp8 float8 enable_float8 fp8_format", "train.precision: fp8", ""},
      {"initial_scale_power", "train.loss_scale.initial", "the number itself: a power of 16 is 65536"},
      {"loss_scale_window growth_interval", "train.loss_scale.interval", ""},
      {"gradient_checkpointing activation_checkpointing use_gradient_checkpointing activation_checkpoint "
       "activation_checkpoint.mode recompute_granularity recompute_activations",
       "train.recompute", "auto, the default, recomputes what memory.device asks for"},
      {"disable_gradient_checkpointing", "train.recompute: none", ""},
      {"cpu_checkpointing activation_offloading activation_cpu_offload", "memory.placement.activations",
       "left out, activations go to the host if the device is full"},
      {"eval_steps eval_interval evals_per_epoch eval_strategy evaluation_strategy eval_every eval_freq "
       "val_check_interval validation_interval validator.freq",
       "train.validate_every", "in steps"},
      {"eval_iters eval_batches limit_val_batches max_eval_samples validator.steps",
       "train.validation_batches", "in microbatches"},
      {"random_seed manual_seed data_seed shuffle_seed", "train.seed", "for weights and data"},
      {"unfrozen_parameters freeze_layers freeze_modules freeze_trainable_layers freeze_trainable_modules "
       "trainable_layers",
       "train.freeze", "patterns of the names of what is frozen, not of what is trained"},
      {"hidden_dropout", "train.dropout", "true applies what the model's config.json asks for"},
      {"compile torch_compile flash_attention flash_attn attn_implementation sdp_attention "
       "xformers_attention use_flash_attn use_liger_kernel liger_kernel enable_liger_kernel use_cache",
       "", "is not needed: the program chooses its kernels"},
      {"num_nodes nnodes num_gpus n_gpus gpus devices nproc_per_node world_size ngpu num_processes", "",
       "is not in the run file: start one process per GPU, as mpirun -n 8 strata train RUN.yaml"},
      {"ddp_timeout train_timeout_seconds nccl_timeout", "train.watchdog", "in seconds"},
      {"resume_from_checkpoint auto_resume_from_checkpoints resume resume_from", "",
       "is not needed: the same command resumes, and --fresh starts over"},
      {"overwrite_output_dir", "", "is an option: strata train RUN.yaml --fresh"},
      {"do_train do_eval stage remove_unused_columns group_by_length", "",
       "is not needed: strata train trains on what the data hold"},
      {"early_stopping_patience load_best_model_at_end metric_for_best_model", "",
       "has no counterpart: a run has all its steps, and checkpoint.keep says how many checkpoints stay"},
      {"neftune_noise_alpha label_smoothing_factor label_smoothing z_loss", "", "has no counterpart"},
      {"rl pref_loss pref_beta dpo_beta beta reward_model num_generations", "",
       "has no counterpart: Strata trains on texts and conversations, not on preferences and rewards"},

      // Adapters.
      {"lora_r lora_rank lora_dim lora.rank r", "adapter.rank", "with adapter.type: lora"},
      {"lora_alpha lora.alpha", "adapter.alpha", "32 if left out"},
      {"lora_dropout lora.dropout", "adapter.dropout", ""},
      {"lora_target_modules lora_target lora_target_linear target_modules lora_modules", "adapter.targets",
       "all-linear, or names of layers"},
      {"peft_use_dora use_dora", "adapter.type: dora", ""},
      {"peft_use_rslora use_rslora", "adapter.type: rslora", ""},
      {"lora peft qlora use_lora use_peft finetuning_type peft_type peft_config", "adapter.type",
       "lora, rslora, dora or none"},
      {"lora_model_dir adapter_name_or_path adapter_path peft_model_id", "adapter.path", "a folder of PEFT"},
      {"modules_to_save lora_modules_to_save", "", "has no counterpart: all but the adapters is frozen"},
      {"load_in_4bit use_4bit quantization_bit quantization", "memory.frozen_as: nf4",
       "int8 has 8 bits; for frozen weights, as beneath adapters"},
      {"load_in_8bit", "memory.frozen_as: int8", "for frozen weights, as beneath adapters"},
      {"bnb_4bit_quant_type bnb_4bit_compute_dtype", "memory.frozen_as", "nf4 or int8"},
      {"double_quantization bnb_4bit_use_double_quant", "",
       "has no counterpart: scales of memory.frozen_as: nf4 are fp32"},

      // The optimizer.
      {"learning_rate base_lr max_lr peak_lr init_lr", "optimizer.lr", ""},
      {"weight_decay wd", "optimizer.weight_decay", "0.1 if left out, and for matrices alone"},
      {"adam_beta1 adam_beta2 beta1 beta2", "optimizer.betas",
       "both as a list; [0.9, 0.95] if left out, and [0.9, 0.99] for lion"},
      {"adam_epsilon adam_eps eps", "optimizer.epsilon", ""},
      {"max_grad_norm gradient_clipping grad_clip clip_grad clip_grad_norm gradient_clip_val max_norm "
       "grad_norm_clip",
       "optimizer.clip_norm", "1 if left out, and 0 for none"},
      {"ema ema_decay use_ema ema_rate model_ema", "train.ema.decay", "such as 0.999; 0 for no averages"},
      {"optim optimizer_type optimizer_name", "optimizer.type",
       "adamw, ademamix, lion, rmsprop, adagrad, adafactor or sgd"},
      {"scale_parameter relative_step warmup_init", "",
       "has no counterpart: adafactor's steps are optimizer.lr times the schedule's factor, as with all "
       "three "
       "false"},
      {"optimizer.params", "optimizer",
       "its keys lr, betas, epsilon and weight_decay stand there themselves"},
      {"lr_scheduler lr_scheduler_type scheduler lr_decay_style decay_type lr_schedule",
       "optimizer.schedule.type",
       "constant, linear, cosine, polynomial, cosine_restarts, wsd, inverse_sqrt or piecewise"},
      {"warmup_steps num_warmup_steps warmup_num_steps lr_warmup_steps lr_warmup_iters warmup_iters",
       "optimizer.schedule.warmup", "in steps"},
      {"warmup_ratio lr_warmup_fraction warmup_fraction", "optimizer.schedule.warmup",
       "in steps, not as a part of the run"},
      {"min_lr min_lr_ratio min_lr_rate min_lr_factor cosine_min_lr_ratio cos_min_ratio",
       "optimizer.schedule.minimum_ratio", "a part of optimizer.lr; 0.1 if left out"},
      {"lr_decay_iters lr_decay_steps", "", "is not needed: the schedule ends with the run's last step"},
      {"lr_wsd_decay_iters num_decay_steps decay_ratio", "optimizer.schedule.decay_ratio",
       "with type: wsd, a part of the run's steps"},
      {"lr_wsd_decay_style lr_decay_type", "optimizer.schedule.shape",
       "of type: wsd; linear, cosine or sqrt"},
      {"num_cycles lr_scheduler_num_cycles", "optimizer.schedule.cycles", "of type: cosine_restarts"},
      {"lr_groups embedding_lr param_groups", "optimizer.groups", "with lr_factor, a factor on optimizer.lr"},

      // Ranks.
      {"zero_optimization.stage zero", "parallel.zero_stage", "3 if left out"},
      {"zero_optimization", "parallel.zero_stage", "the budgets of memory decide what is offloaded"},
      {"zero_hpz_partition_size mics_shard_size", "parallel.shard", "with parallel.replicate"},
      {"deepspeed deepspeed_config fsdp fsdp_config fsdp_version strategy distributed_strategy", "",
       "is not needed: ranks share the state (parallel.zero_stage), and the budgets of memory decide what is "
       "offloaded"},
      {"tensor_parallel_size tensor_model_parallel_size tensor_parallel_degree tensor_parallel tp tp_size",
       "parallel.tensor", ""},
      {"pipeline_parallel_size pipeline_model_parallel_size pipeline_parallel_degree pipeline_parallel pp "
       "pp_size",
       "parallel.pipeline", ""},
      {"context_parallel_size context_parallel_degree context_parallel sequence_parallel_size cp cp_size",
       "parallel.context", "ranks that share each sequence"},
      {"sequence_parallel enable_sequence_parallel", "parallel.sequence",
       "ranks of parallel.tensor share tokens"},
      {"data_parallel_size data_parallel dp dp_size", "parallel.data",
       "left out, it follows from the number of ranks"},
      {"data_parallel_replicate_degree dp_replicate_size dp_replicate", "parallel.replicate", ""},
      {"data_parallel_shard_degree dp_shard_size dp_shard fsdp_size", "parallel.shard", ""},
      {"expert_parallel_degree expert_parallel_size expert_model_parallel_size ep", "",
       "has no counterpart: experts are shared as all other parameters are"},
      {"pipeline_parallel_schedule pipeline_schedule", "parallel.schedule", "gpipe, 1f1b, interleaved, …"},
      {"virtual_pipeline_model_parallel_size", "parallel.chunks", "with parallel.schedule: interleaved"},
      {"module_fqns_per_model_part pipeline_parallel_split_points", "parallel.stages",
       "left out, stages are cut by time"},
      {"communication_data_type accumulate_allreduce_grads_in_fp32 grad_reduce_in_fp32 "
       "mixed_precision_reduce",
       "parallel.reduce_dtype", "fp32 or bf16"},
      {"fsdp_reshard_after_forward", "parallel.zero_stage",
       "layers stay gathered if the device has room, and 2 keeps all"},
      {"overlap_comm contiguous_gradients reduce_bucket_size allgather_bucket_size sub_group_size pin_memory "
       "buffer_count stage3_prefetch_bucket_size stage3_max_live_parameters "
       "stage3_param_persistence_threshold aio use_distributed_optimizer overlap_grad_reduce "
       "overlap_param_gather",
       "", "is not needed: the plan decides"},

      // Memory and device.
      {"memory.gpu memory.vram memory.cuda gpu_memory gpu_memory_limit max_memory vram", "memory.device", ""},
      {"memory.cpu memory.ram memory.dram cpu_memory ram", "memory.host", ""},
      {"memory.ssd memory.disk nvme_path offload_dir offload_folder", "memory.nvme.path",
       "folders on local drives"},
      {"offload_optimizer offload_optimizer.device optimizer_offload optimizer_cpu_offload", "memory.host",
       "a budget: state that does not fit the device goes there, and memory.placement.optimizer_state forces "
       "it"},
      {"offload_param offload_param.device offload_params param_offload cpu_offload enable_cpu_offload "
       "layer_offloading offload",
       "memory.host", "a budget: what does not fit the device goes there, and memory.placement forces it"},
      {"device_type accelerator use_cuda use_cpu no_cuda device.name device.type", "device.kind",
       "cpu or cuda"},
      {"autotuning", "", "is a command: strata plan RUN.yaml --search"},

      // What a run leaves behind.
      {"output_dir out_dir save_dir save_folder save_path dump_folder checkpoint_dir ckpt_dir",
       "checkpoint.path", "a folder"},
      {"save_steps save_interval save_every save_freq save_strategy saves_per_epoch checkpoint_interval "
       "checkpointing_steps checkpoint.interval",
       "checkpoint.every", "in steps; a run also saves at its end and every 30 minutes"},
      {"save_total_limit keep_latest_k keep_last_n save_top_k max_checkpoints", "checkpoint.keep", ""},
      {"logging_steps log_interval log_every_n_steps steps_per_print log_freq log_every", "report.metrics",
       "a file with a line for every step"},
      {"logging_dir log_dir report_to tensorboard tensorboard_dir tensorboard.output_path use_tensorboard "
       "enable_tensorboard plot_loss",
       "report.tensorboard", "a folder"},
      {"wandb wandb_project wandb_entity wandb_mode wandb_run_id wandb_name enable_wandb use_wandb "
       "mlflow_experiment_name mlflow_tracking_uri use_mlflow use_comet use_swanlab",
       "", "has no counterpart: report.tensorboard and report.metrics are files, no service"},
      {"run_name experiment_name wandb_run_name", "", "is the name of the run file"},
      {"wall_clock_breakdown flops_profiler profiler profiling", "",
       "is a command: strata profile RUN.yaml --out DIR"},
      {"max_new_tokens", "train.samples.max_length", "the prompt counts, too"},
      {"push_to_hub hub_model_id", "", "is no part of a run: strata export makes a folder to upload"},
      {"export_dir merge_lora", "", "is a command: strata export RUN.yaml FOLDER --merge"},
  });
  return kKeys;
}

std::span<const ForeignValue> foreign_values() {
  static constexpr auto kValues = std::to_array<ForeignValue>({
      {"train.precision", "bfloat16 bf16_mixed bf16_true torch.bfloat16 mixed_bfloat16", "write bf16"},
      {"train.precision", "float16 half 16 16_mixed 16_true fp16_mixed torch.float16 mixed_float16",
       "write fp16, or bf16 where the device has it"},
      {"train.precision", "float32 float full 32 32_true torch.float32 tf32", "write fp32"},
      {"train.precision", "float8 e4m3 hybrid fp8_e4m3 float8_e4m3fn", "write fp8"},
      {"train.precision", "mixed amp", "write auto"},
      {"train.precision", "nf4 int8 int4 4bit 8bit", "write auto here, and memory.frozen_as: nf4 or int8"},
      {"device.kind", "gpu nvidia nvidia_gpu auto", "write cuda"},
      {"device.kind", "cuda:0 cuda:1 cuda:2 cuda:3 cuda:4 cuda:5 cuda:6 cuda:7",
       "write cuda, and choose the GPU by CUDA_VISIBLE_DEVICES"},
      {"device.kind", "mps rocm hip amd xpu tpu npu vulkan", "Strata computes on CPUs and NVIDIA GPUs"},
      {"optimizer.type",
       "adam adamw_torch adamw_torch_fused adamw_hf fused_adam fusedadam cpu_adam deepspeedcpuadam "
       "paged_adamw paged_adamw_32bit adamw_bnb_32bit torch_adamw",
       "write adamw"},
      {"optimizer.type", "ademamix_bnb paged_ademamix paged_ademamix_32bit", "write ademamix"},
      {"optimizer.type", "ademamix_8bit paged_ademamix_8bit", "write ademamix, with optimizer.moments: 8bit"},
      {"optimizer.type",
       "adamw_8bit paged_adamw_8bit adamw_bnb_8bit adam8bit adamw8bit adamw_torch_8bit adamw_torch_4bit "
       "adamw_4bit",
       "write adamw, with optimizer.moments: 8bit"},
      {"optimizer.type", "lion_32bit paged_lion_32bit fused_lion fusedlion cpu_lion deepspeedcpulion",
       "write lion"},
      {"optimizer.type", "lion_8bit paged_lion_8bit", "write lion, with optimizer.moments: 8bit"},
      {"optimizer.type", "ada_factor adafactor_torch", "write adafactor"},
      {"optimizer.type", "nor_muon", "write normuon"},
      {"optimizer.type", "rowwise_adagrad exact_rowwise_adagrad row_wise_adagrad", "write adagrad_rowwise"},
      {"optimizer.type", "rmsprop_bnb rmsprop_bnb_32bit", "write rmsprop"},
      {"optimizer.type", "rmsprop_bnb_8bit", "write rmsprop, with optimizer.moments: 8bit"},
      {"optimizer.type", "cpu_adagrad deepspeedcpuadagrad", "write adagrad"},
      {"optimizer.type",
       "lamb lars sophia schedule_free_adamw galore_adamw apollo_adamw shampoo soap "
       "came_pytorch adalomo lomo",
       "Strata has no other optimizer"},
      {"optimizer.schedule.type", "constant_with_warmup warmuplr",
       "write constant, with optimizer.schedule.warmup"},
      {"optimizer.schedule.type", "linear_with_warmup warmupdecaylr",
       "write linear, with optimizer.schedule.warmup"},
      {"optimizer.schedule.type",
       "cosine_with_min_lr cosine_with_warmup cosine_annealing cosineannealinglr warmupcosinelr",
       "write cosine, with optimizer.schedule.minimum_ratio"},
      {"optimizer.schedule.type", "cosine_with_restarts cosineannealingwarmrestarts",
       "write cosine_restarts, with optimizer.schedule.cycles"},
      {"optimizer.schedule.type", "warmup_stable_decay", "write wsd, with optimizer.schedule.decay_ratio"},
      {"optimizer.schedule.type", "inverse_square_root inverse_square_root_decay",
       "write inverse_sqrt, with optimizer.schedule.timescale"},
      {"optimizer.schedule.type", "polynomiallr polynomial_with_warmup",
       "write polynomial, with optimizer.schedule.power"},
      {"optimizer.schedule.type", "multisteplr steplr sequentiallr",
       "write piecewise, with optimizer.schedule.points"},
      {"optimizer.schedule.type", "reduce_lr_on_plateau reducelronplateau",
       "write plateau, with optimizer.schedule.factor and patience"},
      {"optimizer.schedule.type", "one_cycle rex sqrt exponential greedy", "Strata has no other schedule"},
      {"optimizer.moments", "bfloat16", "write bf16"},
      {"optimizer.moments", "fp8 int8 8bits 8_bit uint8 dynamic", "write 8bit"},
      {"adapter.type", "qlora", "write lora, with memory.frozen_as: nf4"},
      {"adapter.type", "full full_finetune freeze", "write none"},
      {"adapter.type", "ia3 pissa oft adalora loha lokr vera prefix_tuning prompt_tuning llama_adapter",
       "Strata has no other adapter"},
      {"train.recompute", "true selective block uniform", "write auto, or full"},
      {"train.recompute", "false off", "write none"},
      {"data.packing", "true", "write whole, or documents"},
      {"data.packing", "false off", "write none"},
      {"data.tokenizer", "*", "write auto, and name the tokenizer's folder in data.tokenizer_path"},
      {"data.format",
       "json jsonl chat chat_template chatml messages openai conversations conversation sharegpt alpaca "
       "instruction "
       "completion prompt_completion",
       "write auto, or records: the keys of records say their form"},
      {"data.format", "bin megatron nanogpt", "write tokens"},
      {"data.format", "csv tsv parquet arrow", "convert the table to JSON lines"},
      {"memory.device", "auto max all", "write unlimited"},
      {"memory.host", "auto max all", "write unlimited"},
      {"memory.frozen_as", "4bit int4 fp4 4", "write nf4"},
      {"memory.frozen_as", "8bit 8", "write int8"},
      {"memory.frozen_as", "bf16 fp16 none", "write precision"},
      {"parallel.schedule", "interleaved1f1b interleaved_1f1b", "write interleaved"},
      {"parallel.schedule", "zbvzerobubble interleavedzerobubble zerobubble zb_h1 zb1p", "write zero_bubble"},
      {"parallel.reduce_dtype", "float32 torch.float32", "write fp32"},
      {"parallel.reduce_dtype", "bfloat16 torch.bfloat16 fp16 float16", "write bf16"},
  });
  return kValues;
}

std::span<const ForeignTool> foreign_tools() {
  static constexpr auto kTools = std::to_array<ForeignTool>({
      {"DeepSpeed", "docs/how-to/from-deepspeed.md",
       "zero_optimization train_micro_batch_size_per_gpu gradient_clipping zero_allow_untested_optimizer "
       "steps_per_print wall_clock_breakdown zero_force_ds_cpu_optimizer"},
      {"Axolotl", "docs/how-to/from-axolotl.md",
       "base_model sequence_len sample_packing val_set_size dataset_prepared_path lora_target_linear"},
      {"LLaMA-Factory", "docs/how-to/from-llama-factory.md",
       "finetuning_type cutoff_len lora_target tokenized_path quantization_bit template"},
      {"torchtitan", "docs/how-to/from-torchtitan.md", "parallelism activation_checkpoint job"},
  });
  return kTools;
}

}  // namespace strata
