"""Scores pairs as pyterrier_t5 does, for benches/rerank.rs: CHECKPOINT PAIRS.jsonl, prints {"seconds", "pairs", "tokens", "padded"}.

Its order of work (MonoT5ReRanker.transform): batches of four in the order given; `Query: … Document: …` padded to the longest
of the batch, its last token taken off, `Relevant:` put behind; the decoder's first step over the whole vocabulary, of which
two logits are kept; log-softmax. The tokens of the padding before `Relevant:` are masked, as there. Loading is not timed,
and a first batch warms up.
"""

import json
import sys
import time

import torch
import transformers

BATCH = 4


def main():
    checkpoint, path = sys.argv[1:]
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.T5ForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32).eval()
    answers = [tokenizer.convert_tokens_to_ids(piece) for piece in ("▁true", "▁false")]
    with open(path, encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    prompts = tokenizer(["Relevant:"] * BATCH, return_tensors="pt", padding="longest", return_token_type_ids=False)
    counted = {"tokens": 0, "padded": 0}

    def score(batch):
        texts = [f"Query: {pair['query']} Document: {pair['document']}" for pair in batch]
        encoded = tokenizer(texts, padding="longest", return_tensors="pt", return_token_type_ids=False)
        for key in ("input_ids", "attention_mask"):
            values = encoded[key][:, :-1][:, : 512 - prompts[key].shape[1]]
            encoded[key] = torch.cat([values, prompts[key][: values.shape[0]]], dim=1)
        counted["tokens"] += int(encoded["attention_mask"].sum())
        counted["padded"] += encoded["attention_mask"].numel()
        start = torch.full((len(batch), 1), model.config.decoder_start_token_id, dtype=torch.long)
        logits = model(**encoded, decoder_input_ids=start).logits[:, 0, answers]
        return torch.nn.functional.log_softmax(logits, dim=1)[:, 0].tolist()

    with torch.inference_mode():
        score(pairs[:BATCH])
        counted.update(tokens=0, padded=0)
        began = time.perf_counter()
        for at in range(0, len(pairs), BATCH):
            score(pairs[at : at + BATCH])
        seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "pairs": len(pairs), **counted}))


if __name__ == "__main__":
    main()
