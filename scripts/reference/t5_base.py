"""Makes models of MonoT5-base's size for benches/rerank.rs, with seeded random weights: FROM-SCRATCH TO, where a tokenizer lies.

    scripts/export-monot5 --python scripts/reference/t5_base.py TOKENIZER_FOLDER TO

TO gets `checkpoint` (Hugging Face layout), `fp32` and `int8` (as scripts/export_monot5.py writes them). Dimensions are those of
castorini/monot5-base-msmarco: d_model 768, d_ff 3072, 12 heads, 12 layers on each side, 32,128 pieces. Its weights are not to
be had here; random ones take the same time. They are scaled so that scores differ, which the comparison of int8 with
32-bit floats needs.
"""

import shutil
import sys
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import export_monot5 as exporter  # noqa: E402


def main():
    tokenizer, target = map(Path, sys.argv[1:])
    checkpoint = target / "checkpoint"
    checkpoint.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    config = transformers.T5Config(
        vocab_size=32128, d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, dropout_rate=0.0, initializer_factor=1.0,
    )
    transformers.T5ForConditionalGeneration(config).eval().save_pretrained(checkpoint)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, checkpoint / name)
    exporter.quiet()
    exporter.export(exporter.parse([str(checkpoint), str(target / "fp32"), "--force"]))
    exporter.export(exporter.parse([str(checkpoint), str(target / "int8"), "--int8", "--force"]))


if __name__ == "__main__":
    main()
