"""The shares of masking: BERT replaces 80 % of the chosen words by [MASK], 10 % by a random word, and keeps 10 %.

[MASK] never occurs after pretraining. If all chosen words become [MASK], a model may compute useful states at [MASK]
only; if all become random words, every word is suspect. The mixture is meant to avoid both (Devlin et al. 2018, section
3.1). Their table 8 says: for fine-tuning the shares hardly matter, since it adapts the model; with frozen states they
matter a little more, and random words alone are the worst.
"""

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.small_world import (
    BERT_SHARES,
    Shares,
    build_bert,
    finetune,
    make_world,
    pretrain,
    probe_layers,
    random_rows,
    tagging_accuracy,
)

MASK_ONLY, MIXED, RANDOM_ONLY = "100/0/0", "80/10/10", "0/100/0"
SHARES: dict[str, Shares] = {MASK_ONLY: (1, 0, 0), MIXED: BERT_SHARES, RANDOM_ONLY: (0, 1, 0)}
FEATURES, FINETUNED = "frozen", "fine-tuned"


class MaskingShares(Experiment):
    """Parts of speech from frozen states and after fine-tuning, for three mixtures."""

    name = "masking-shares"
    topic = "bert"
    title = Text("Is 80/10/10 needed?", "80/10/10 有必要吗？")
    questions = (
        Question(
            "003:285-291",
            Text("Why are 10 % random and 10 % unchanged?", "为什么要有 10% 随机词和 10% 不变？"),
            Text(
                "Against the mismatch of pretraining and fine-tuning; every word gets a contextual representation.",
                "为了缓解预训练与微调的不一致，让每个词都有随上下文变化的表示。",
            ),
        ),
    )
    hypothesis = Text(
        "A model that is pretrained with [MASK] alone is worse than one with the mixture, frozen and fine-tuned.",
        "只用 [MASK] 预训练的模型比混合比例的差，冻结与微调时都是如此。",
    )
    varied = Text("shares of [MASK], random words and unchanged words", "[MASK]、随机词与不变词的比例")
    measured = Text(
        "accuracy of parts of speech, from frozen states and after fine-tuning", "词性准确率：冻结隐状态，以及微调之后"
    )
    refuted_if = Text(
        "[MASK] alone gives the better model, frozen or fine-tuned", "冻结或微调时，只用 [MASK] 的模型更好"
    )
    panels = (
        Panel(
            "accuracy",
            Text("parts of speech after pretraining", "预训练后的词性判断"),
            Text("[MASK] / random / unchanged (%)", "[MASK] / 随机 / 不变（%）"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={FEATURES: Text("frozen states", "冻结隐状态"), FINETUNED: Text("fine-tuned", "微调")},
        ),
    )
    papers = ("Devlin et al. 2018, section C.2 and table 8",)
    seconds = 40

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        world, test = make_world(seed), make_world(seed, 100, purpose="test")
        labelled = random_rows(world, 100, seed)
        for name, shares in SHARES.items():
            model = build_bert(seed)
            pretrain(model, world, steps=effort.pick(400, 50), seed=seed, shares=shares)
            record("accuracy", FEATURES, name, probe_layers(model.bert, labelled, test)[-1])
            tuned = finetune(model.bert, labelled, steps=effort.pick(80, 5), seed=seed)
            record("accuracy", FINETUNED, name, tagging_accuracy(tuned, test))

    def judge(self, results: Results) -> Verdict:
        mixed, mask = (
            [results.values("accuracy", series, name) for series in (FEATURES, FINETUNED)]
            for name in (MIXED, MASK_ONLY)
        )
        better = [above(first, second) for first, second in zip(mixed, mask, strict=True)]
        worse = [above(second, first) for first, second in zip(mixed, mask, strict=True)]
        return Verdict(
            decide(all(better), any(worse)),
            Text(
                "From frozen states the accuracy is {mixed:.1%} with the mixture of BERT, {mask:.1%} with [MASK] "
                "alone "
                "and {random:.1%} with random words alone; after fine-tuning {mixed_tuned:.1%}, {mask_tuned:.1%} and "
                "{random_tuned:.1%}.",
                "冻结隐状态时，BERT 的混合比例准确率为 {mixed:.1%}，只用 [MASK] 为 {mask:.1%}，只用随机词为 "
                "{random:.1%}。"
                "微调后依次为 {mixed_tuned:.1%}、{mask_tuned:.1%} 和 {random_tuned:.1%}。",
            ),
            {
                "mixed": results.mean("accuracy", FEATURES, MIXED),
                "mask": results.mean("accuracy", FEATURES, MASK_ONLY),
                "random": results.mean("accuracy", FEATURES, RANDOM_ONLY),
                "mixed_tuned": results.mean("accuracy", FINETUNED, MIXED),
                "mask_tuned": results.mean("accuracy", FINETUNED, MASK_ONLY),
                "random_tuned": results.mean("accuracy", FINETUNED, RANDOM_ONLY),
            },
        )
