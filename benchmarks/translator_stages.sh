#!/usr/bin/env bash
# The stages of the recipe translator-general, each one command that continues where it was stopped:
#
#   benchmarks/translator_stages.sh data DATA       hours of CPU: the corpora, split and cleaned       -> $FOLDER
#   benchmarks/translator_stages.sh teacher         GPU: train the teacher                             -> $RUNS/translator-general-teacher
#   benchmarks/translator_stages.sh distill         GPU: translate training text with the teacher      -> $FOLDER/distilled
#   benchmarks/translator_stages.sh student         GPU: train the student and store it in 8 bits      -> $RUNS/general
#   benchmarks/translator_stages.sh score RUN ...   BLEU and chrF of runs on the development sets
#
# FOLDER (data/translator), RUNS (runs) and LIMIT (350000 sentences per direction for distill) can be set. Seeds are those
# of the recipes. SETTINGS are settings for the trainings, e.g. SETTINGS="training.max_steps=12000" for a slower GPU.
set -euo pipefail
export FOLDER=${FOLDER:-data/translator} RUNS=${RUNS:-runs}
PYTHON=${PYTHON:-python} LIMIT=${LIMIT:-350000} SETTINGS=${SETTINGS:-}
regard() { "$PYTHON" -m regard "$@"; }
teacher=$RUNS/translator-general-teacher
stage=${1:?name a stage: data, teacher, distill, student or score}
shift
case $stage in
data)
    "$PYTHON" -m benchmarks.translator_data "$1" "$FOLDER" --general
    ;;
teacher)
    # shellcheck disable=SC2086
    regard train translator-general-teacher --folder "$teacher" --resume "data.root=$FOLDER" $SETTINGS
    ;;
distill)
    regard distill "$teacher" --beam 4 --limit "$LIMIT" --folder "$FOLDER/distilled"
    for corpus in tatoeba europarl; do
        regard translate "$teacher" --from en --to zh --format lines \
            -i "$FOLDER/train.$corpus.en.txt.xz" -o "$FOLDER/distilled/train.$corpus.zh.txt"
    done
    ;;
student)
    # shellcheck disable=SC2086
    regard train translator-general --folder "$RUNS/translator-general" --resume "data.root=$FOLDER" \
        "text.tokenizer_from=$teacher" $SETTINGS
    regard compress "$RUNS/translator-general" --folder "$RUNS/general"
    ;;
score)
    "$PYTHON" -m benchmarks.translator_scores "$FOLDER" "$@" --split valid
    ;;
*)
    echo "unknown stage: $stage" >&2
    exit 2
    ;;
esac
