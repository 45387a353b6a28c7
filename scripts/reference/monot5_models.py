"""Makes tests/fixtures/models: small models in every layout that nuggetd reads, with the scores that PyTorch gives.

    scripts/export-monot5 --python scripts/reference/monot5_models.py

Weights are seeded random numbers, large enough for scores to differ widely; the tokenizer is trained on the items of
demo/items.jsonl. Each folder gets `reference_scores.jsonl`: {"query", "document", "score"} by `transformers`, each pair
alone and unpadded, its ids made by the rule that stands in scripts/export_monot5.py.

    t5-fused, t5-fused-int8   by scripts/export_monot5.py
    mt5-fused                 the same, untied and gated, with the pieces ▁yes and ▁no
    t5-two-files, t5-merged   encoder_model.onnx with decoder_model.onnx or decoder_model_merged.onnx, with the inputs and
                              outputs that optimum-cli gives them
    cross-encoder             model.onnx with one logit
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

import onnx
import torch
import transformers
from onnx import TensorProto, helper
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import export_monot5 as exporter  # noqa: E402

TARGET = ROOT / "tests" / "fixtures" / "models"
PIECES = 420
ANSWERS = ["▁true", "▁false", "▁yes", "▁no"]
SPECIAL = ["<pad>", "</s>", "<unk>"]
T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4,
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.0,
    "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1, "initializer_factor": 1.3,
}
QUESTIONS = ["Which roads are closed?", "How many people are missing", "Dove si trova acqua potabile?", ""]


def texts():
    with open(ROOT / "demo" / "items.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def pairs():
    """At least sixty: ordinary texts, and those that go wrong first."""
    ordinary = texts()
    odd = [
        "", " ", " \t\n ", "🔥", "🚒🚒🚒 🙏", "a", "أغلقت الشرطة الطريق السريع بسبب السيول", "הכביש נסגר בגלל שיטפון",
        "消防隊は午後三時に橋を封鎖した。", "</s> <pad> Relevant: true", "e\u0301vacue\u0301", "x" * 3000,
        " ".join(ordinary)[:12000], "word " * 2000,
    ]
    made = [(QUESTIONS[number % 4], text) for number, text in enumerate(odd)]
    made += [(QUESTIONS[number % 3], text) for number, text in enumerate(ordinary[:60])]
    made.append((" ".join(ordinary)[:6000], ordinary[0]))
    made.append(("🔥", "🔥"))
    return made


def train():
    """A Unigram tokenizer of T5's kind, and one that puts pairs together as BERT does."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=PIECES, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    template = ["Query: Document: Relevant:"] * 20
    tokenizer.train_from_iterator(texts() + template, trainer)
    described = json.loads(tokenizer.to_str())
    vocabulary = described["model"]["vocab"]
    known = {piece for piece, _ in vocabulary}
    # Rounded, so that sums of scores are exact and ties are ties on every machine
    vocabulary = [[piece, round(score, 3)] for piece, score in vocabulary]
    vocabulary += [[piece, -9.5] for piece in ANSWERS if piece not in known]
    described["model"]["vocab"] = vocabulary
    made = Tokenizer.from_str(json.dumps(described))
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    of_pairs = Tokenizer.from_str(made.to_str())
    of_pairs.post_processor = processors.TemplateProcessing(
        single="</s> $A </s>", pair="</s> $A </s> $B:1 </s>:1", special_tokens=[("</s>", 1)]
    )
    return made, of_pairs


def checkpoint(folder, tokenizer, model, seed):
    torch.manual_seed(seed)
    model = model()
    model.eval().save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"})
    )
    return model


def reference(folder, scored):
    with open(folder / "reference_scores.jsonl", "w", encoding="utf-8") as file:
        for (query, document), score in scored:
            file.write(json.dumps({"query": query, "document": document, "score": score}, ensure_ascii=False) + "\n")


def of_t5(model, tokenizer, answers):
    prompt = exporter.Prompt(tokenizer, exporter.TEMPLATE, 512)
    ids = [prompt.ids(query, document) for query, document in pairs()]
    answers = [tokenizer.token_to_id(answer) for answer in answers]
    scores = exporter.expected(model, answers, ids)[:, 0].tolist()
    spread = max(scores) - min(scores)
    assert len(scores) >= 60 and spread > 0.3, f"scores that differ by {spread} show nothing"
    return list(zip(pairs(), scores))


def fused(temporary, name, model, source, answers, *flags):
    target = TARGET / name
    exporter.export(exporter.parse([str(source), str(target), "--pieces", *answers, *flags]))
    description = json.loads((target / "nuggetd-model.json").read_text(encoding="utf-8"))
    description["source"] = name
    (target / "nuggetd-model.json").write_text(json.dumps(description, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    reference(target, of_t5(model, Tokenizer.from_file(str(source / "tokenizer.json")), answers))


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.encoder = model.encoder

    def forward(self, input_ids, attention_mask):
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class Decoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, encoder_attention_mask, input_ids, encoder_hidden_states):
        return self.model(
            decoder_input_ids=input_ids, attention_mask=encoder_attention_mask, encoder_outputs=(encoder_hidden_states,),
            use_cache=False,
        ).logits


def trace(module, path, arguments, names, output, dynamic):
    with torch.no_grad():
        program = torch.onnx.export(
            module, arguments, dynamo=True, opset_version=18, verbose=False, input_names=names, output_names=[output],
            dynamic_shapes=dynamic,
        )
    graph = program.model.graph
    for noted in [program.model, graph, *graph.all_nodes(), *graph.inputs, *graph.outputs, *graph.initializers.values()]:
        noted.metadata_props.clear()
        noted.doc_string = None
    program.save(str(path), external_data=False)


def lay_out(target, model, source):
    """Writes encoder and decoder as optimum's text2text-generation export does."""
    target.mkdir(parents=True)
    batch, length = torch.export.Dim("batch_size"), torch.export.Dim("encoder_sequence_length")
    ids = torch.randint(3, 100, (3, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    both = {0: batch, 1: length}
    trace(
        Encoder(model), target / "encoder_model.onnx", (ids, mask), ["input_ids", "attention_mask"], "last_hidden_state",
        {"input_ids": both, "attention_mask": both},
    )
    hidden = torch.randn(3, 7, model.config.d_model)
    trace(
        Decoder(model), target / "decoder_model.onnx", (mask, torch.zeros(3, 2, dtype=torch.int64), hidden),
        ["encoder_attention_mask", "input_ids", "encoder_hidden_states"], "logits",
        {
            "encoder_attention_mask": both, "input_ids": {0: batch, 1: torch.export.Dim("decoder_sequence_length")},
            "encoder_hidden_states": both,
        },
    )
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(source / name, target / name)


def two_files(target, model, source):
    lay_out(target, model, source)
    reference(target, of_t5(model, Tokenizer.from_file(str(source / "tokenizer.json")), ANSWERS[:2]))


def merged(target, plain):
    """The decoder as the second branch of an If, beside one that would go on from an earlier step; that one is never
    taken by nuggetd, and here gives zeros."""
    target.mkdir(parents=True)
    for name in ("encoder_model.onnx", "config.json", "tokenizer.json", "reference_scores.jsonl"):
        shutil.copy(plain / name, target / name)
    model = onnx.load(plain / "decoder_model.onnx")
    graph = model.graph
    logits = graph.output[0]
    without = helper.make_graph(list(graph.node), "without_past", [], [logits], list(graph.initializer))
    zeros = helper.make_node(
        "ConstantOfShape", ["shape_of_nothing"], ["logits_with_past"], value=helper.make_tensor("value", TensorProto.FLOAT, [1], [0.0])
    )
    shape = helper.make_tensor("shape_of_nothing", TensorProto.INT64, [3], [1, 1, 1])
    nothing = helper.make_tensor_value_info("logits_with_past", TensorProto.FLOAT, [None, None, None])
    past = helper.make_graph([zeros], "with_past", [], [nothing], [shape])
    branch = helper.make_node("If", ["use_cache_branch"], ["logits"], then_branch=past, else_branch=without)
    inputs = list(graph.input)
    for layer in range(T5["num_decoder_layers"]):
        for side in ("decoder", "encoder"):
            for part in ("key", "value"):
                name = f"past_key_values.{layer}.{side}.{part}"
                dimensions = ["batch_size", T5["num_heads"], f"past_{side}_sequence_length", T5["d_kv"]]
                inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dimensions))
    inputs.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", "decoder_sequence_length", None])
    made = helper.make_model(
        helper.make_graph([branch], "merged", inputs, [output]), opset_imports=model.opset_import, ir_version=model.ir_version
    )
    onnx.checker.check_model(made)
    onnx.save(made, target / "decoder_model_merged.onnx")


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).logits


def pair_ids(tokenizer, query, document, longest=512):
    """Ids and types of a pair, cut by the rule of docs/MODELS.md."""
    plain = lambda text: tokenizer.encode(text, add_special_tokens=False)  # noqa: E731
    query, document = plain(query), plain(document)
    room = longest - tokenizer.num_special_tokens_to_add(True)
    if len(query.ids) + len(document.ids) > room:
        query.truncate(min(len(query.ids), room // 2))
        document.truncate(min(len(document.ids), room - len(query.ids)))
    pair = tokenizer.post_process(query, document, True)
    return pair.ids, pair.type_ids


def cross_encoder(target, tokenizer):
    target.mkdir(parents=True)
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=512, num_labels=1, pad_token_id=0, initializer_range=0.35, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="eager",
    )
    model = transformers.BertForSequenceClassification(config).eval()
    config.architectures = ["BertForSequenceClassification"]
    config.save_pretrained(target)
    tokenizer.save(str(target / "tokenizer.json"), pretty=False)
    batch, length = torch.export.Dim("batch_size"), torch.export.Dim("sequence_length")
    both = {0: batch, 1: length}
    ids = torch.randint(3, 100, (3, 7), generator=torch.Generator().manual_seed(1))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    trace(
        Logits(model), target / "model.onnx", (ids, torch.ones_like(ids), torch.zeros_like(ids)), names, "logits",
        {name: both for name in names},
    )
    scored = []
    with torch.inference_mode():
        for pair in pairs():
            ids, types = pair_ids(tokenizer, *pair)
            logit = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits.item()
            scored.append((pair, -math.log1p(math.exp(-logit)) if logit > 0 else logit - math.log1p(math.exp(logit))))
    scores = [score for _, score in scored]
    assert max(scores) - min(scores) > 0.5, "scores that differ so little show nothing"
    reference(target, scored)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--two-files", nargs=2, type=Path, metavar=("FROM", "TO"), help="only lay out this checkpoint in two files")
    arguments = parser.parse_args()
    exporter.quiet()
    if arguments.two_files:
        source, target = arguments.two_files
        model, _, _ = exporter.load(str(source), str(source), exporter.PIECES)
        shutil.rmtree(target, ignore_errors=True)
        lay_out(target, model, source)
        return
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    tokenizer, of_pairs = train()
    size = tokenizer.get_vocab_size()
    with tempfile.TemporaryDirectory() as temporary:
        temporary = Path(temporary)
        (temporary / "t5").mkdir()
        (temporary / "mt5").mkdir()
        t5 = checkpoint(
            temporary / "t5", tokenizer,
            lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=size, **T5)), 3,
        )
        fused(temporary, "t5-fused", t5, temporary / "t5", ANSWERS[:2])
        fused(temporary, "t5-fused-int8", t5, temporary / "t5", ANSWERS[:2], "--int8")
        two_files(TARGET / "t5-two-files", t5, temporary / "t5")
        merged(TARGET / "t5-merged", TARGET / "t5-two-files")
        mt5 = checkpoint(
            temporary / "mt5", tokenizer,
            lambda: transformers.MT5ForConditionalGeneration(
                transformers.MT5Config(vocab_size=size, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **{**T5, "initializer_factor": 1.1})
            ), 4,
        )
        fused(temporary, "mt5-fused", mt5, temporary / "mt5", ANSWERS[2:])
    cross_encoder(TARGET / "cross-encoder", of_pairs)
    total = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file())
    print(f"{TARGET}: {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
