"""The identity of an engine's weights: a hash of their bytes and of the configuration of KV.

Two engines have one identity if and only if they compute the same KV from the same tokens. The
path of the model and the way of loading do not matter.
"""

import hashlib
import json
import sys

import torch

# Fields of a model's configuration without effect on KV: file names and tool versions.
_NAMES_ONLY = {"_name_or_path", "name_or_path", "transformers_version", "_commit_hash"}
# Tensors derived from the configuration. SGLang's weight checker omits the same.
_DERIVED = ("cos_sin_cache", "cos_cache", "sin_cache", "inv_freq", "freqs_cis", "expert_mask_gpu")
_CHUNK = 64 << 20  # bytes that one step of a hash reads and may copy


class Unknown(Exception):
    """The weights cannot be read."""


def find_scheduler():
    """The SGLang scheduler that is creating the storage backend, or None.

    SGLang passes a backend its configuration and no reference to the model, but always creates it
    from the scheduler, at start and by PUT /hicache/storage-backend.
    """
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if "tp_worker" in getattr(owner, "__dict__", ()):
            return owner
        frame = frame.f_back
    return None


def runners_of(scheduler):
    """[(role, model runner)] of the target model and of draft models, as for weight updates."""
    runners = list(scheduler.tp_worker.weight_update_runners())
    draft = getattr(scheduler, "draft_worker", None)
    if draft is not None:
        runners += draft.weight_update_runners()
    return runners


def tensors_of(model):
    """(name, tensor) of each tensor that a checkpoint or an update writes."""
    yield from _relevant(model.named_parameters())
    non_persistent = {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        for name in getattr(module, "_non_persistent_buffers_set", ())
    }
    yield from _relevant((name, buffer) for name, buffer in model.named_buffers() if name not in non_persistent)


def _relevant(named):
    for name, tensor in named:
        if not getattr(tensor, "_skip_weight_check", False) and not any(part in name for part in _DERIVED):
            yield name, tensor.detach()


def fingerprint(runners):
    """The hash of all weights of this process and of the settings that shape their KV."""
    if not runners:
        raise Unknown("there is no model")
    digest = hashlib.sha256()
    for role, runner in runners:
        _add(digest, role, type(runner.model).__qualname__, settings_of(runner))
        for name, tensor in tensors_of(runner.model):
            _add(digest, name, tensor.dtype, tuple(tensor.shape), _hash(tensor))
        for name, module in runner.model.named_modules():
            scales = [getattr(module, f"{x}_scale_float", None) for x in ("k", "v", "idx_k")]
            if any(s is not None for s in scales):
                _add(digest, name, *scales)
        _add_adapters(digest, getattr(runner, "lora_manager", None))
    return digest.hexdigest()


def sample(runners):
    """The hash of some bytes of each tensor, in milliseconds; any training step changes it."""
    pieces = []
    for _, runner in runners:
        for _, tensor in tensors_of(runner.model):
            if tensor.is_meta or tensor.numel() == 0:
                continue
            memory = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
            first = tensor.storage_offset() * tensor.element_size()
            last = first + (tensor.numel() - 1) * tensor.element_size()  # if contiguous
            for at in {first, (first + last) // 2, max(first, last - 63)}:
                pieces.append(memory[at : at + 64])
    digest = hashlib.sha256()
    for device in sorted({p.device for p in pieces}, key=str):
        digest.update(torch.cat([p for p in pieces if p.device == device]).cpu().numpy())
    return digest.hexdigest()


def settings_of(runner):
    """The other inputs of KV, as text: the resolved model configuration, RoPE, quantization."""
    config = runner.model_config
    fields = {
        "config": _plain(config.hf_config.to_dict()),
        "quantization": str(getattr(config, "quantization", None)),
        "dtype": str(getattr(config, "dtype", None)),
    }
    return json.dumps(fields, sort_keys=True)


def _plain(value):
    """A copy without values that differ between processes, such as addresses in an object's
    text."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items() if k not in _NAMES_ONLY}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(v)) for v in value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, torch.dtype):
        return str(value)
    return _plain(value.to_dict()) if hasattr(value, "to_dict") else type(value).__qualname__


def _add(digest, *parts):
    for part in parts:
        text = str(part).encode()
        digest.update(len(text).to_bytes(8, "little") + text)


def _add_adapters(digest, manager):
    """Adds LoRA adapters of --lora-paths. SGLang's page hashes contain an adapter's id, which is
    derived from its name and path if it was given at start, and random if it was loaded later."""
    if manager is None:
        return
    from sglang.srt.lora.lora_registry import LoRARef

    for ref in sorted(manager.lora_refs.values(), key=lambda r: r.lora_id):
        if ref.lora_id != LoRARef.deterministic_id(ref.lora_name, ref.lora_path) and (
            ref.lora_id != LoRARef.deterministic_id(ref.lora_path, ref.lora_path)
        ):
            continue
        adapter = manager.loras[ref.lora_id]
        _add(digest, ref.lora_id, adapter.scaling)
        for part, weights in [
            *((f"layer {i}", layer.weights) for i, layer in enumerate(adapter.layers)),
            ("embedding", adapter.embedding_layers),
            ("added", adapter.added_tokens_embeddings),
        ]:
            for name in sorted(weights):
                _add(digest, part, name, weights[name].dtype, tuple(weights[name].shape), _hash(weights[name]))


def _hash(tensor):
    if tensor.is_meta or tensor.numel() == 0:
        return ""
    if not tensor.is_contiguous():
        if tensor.dim() > 1 and tensor.nbytes > _CHUNK:  # a full copy may not fit
            return [_hash(part) for part in tensor.unbind(0)]
        tensor = tensor.contiguous()
    data = tensor.reshape(-1).view(torch.uint8)
    if tensor.is_cuda:
        from sglang.kernels.ops.memory.gpu_tensor_hash import gpu_tensor_hash

        # The hash reads aligned words of 4 bytes.
        aligned = data.storage_offset() % 4 == 0
        chunks = (data[at : at + _CHUNK] for at in range(0, data.numel(), _CHUNK))
        return [gpu_tensor_hash(chunk if aligned else chunk.clone()) for chunk in chunks]
    digest = hashlib.sha256()
    for at in range(0, data.numel(), _CHUNK):
        digest.update(data[at : at + _CHUNK].cpu().numpy())
    return digest.hexdigest()
