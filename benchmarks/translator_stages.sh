#!/usr/bin/env bash
# The stages of the recipe translator-general, each one command that continues where it was stopped:
#
#   benchmarks/translator_stages.sh data DATA     CPU: the corpora, split and cleaned                 -> $FOLDER
#   benchmarks/translator_stages.sh prepare       CPU: learn the vocabulary                           -> $RUNS/translator-general-vocabulary
#   benchmarks/translator_stages.sh pack          CPU: what the GPU's machine needs, in pieces        -> $PACK/1, $PACK/2 ...
#   benchmarks/translator_stages.sh unpack        there: $FOLDER and $RUNS from the pieces
#   benchmarks/translator_stages.sh teacher       GPU: train the teacher                              -> $RUNS/translator-general-teacher
#   benchmarks/translator_stages.sh distill       GPU: translate with the teacher                     -> $FOLDER/distilled
#   benchmarks/translator_stages.sh student       GPU: train the student, store it in 8 bits          -> $RUNS/general
#   benchmarks/translator_stages.sh search        GPU: short trainings of students of equal size      -> $RUNS/search-*
#   benchmarks/translator_stages.sh score RUN ... BLEU and chrF of runs on the development sets
#   benchmarks/translator_stages.sh dry DATA      all of them on a CPU with tiny models, in minutes   -> $DRY
#
# distill translates LIMIT sentences per direction, English sentences into all languages, and everyday and Parliament
# sentences into Chinese, in PROCESSES processes on one GPU. Seeds are those of the recipes. SETTINGS are settings for
# all trainings, e.g. SETTINGS="training.max_steps=12000" for a slower GPU. Paths are relative to this project.
set -euo pipefail
cd "$(dirname "$0")/.."
export FOLDER=${FOLDER:-data/translator} RUNS=${RUNS:-runs} PACK=${PACK:-build/pack} DRY=${DRY:-build/dry}
export PYTHON=${PYTHON:-python} LIMIT=${LIMIT:-220000} PROCESSES=${PROCESSES:-6} SETTINGS=${SETTINGS:-}
export PIECE_MIB=${PIECE_MIB:-28} READ=${READ:-} SEARCH_STEPS=${SEARCH_STEPS:-2500} SEARCH=${SEARCH:-tatoeba written game guides}
SHAPES=${SHAPES:-"6+2,15000,1024 8+2,15000,672 12+1,15000,400 6+2,12000,1216 6+2,20000,712"} # layers, vocabulary, d_ff
JOBS=${JOBS:-"en-zh en-de en-fr en-es zh-en de-en fr-en es-en europarl-zh tatoeba-zh mono-zh mono-de mono-fr mono-es"}
regard() { "$PYTHON" -m regard "$@"; }
vocabulary=$RUNS/translator-general-vocabulary teacher=$RUNS/translator-general-teacher
stage=${1:?name a stage, e.g. data}
shift
# shellcheck disable=SC2086
case $stage in
data)
    "$PYTHON" -m benchmarks.translator_data "$1" "$FOLDER" --general ${READ:+--limit "$READ"}
    ;;
prepare)
    regard prepare translator-general-teacher --folder "$vocabulary" --part 0 "data.root=$FOLDER" $SETTINGS
    rm -rf "$vocabulary/store"
    ;;
pack)
    rm -rf "$PACK"
    "$PYTHON" -m benchmarks.pack "$PACK" "$FOLDER" "$vocabulary" --mib "$PIECE_MIB"
    ;;
unpack)
    "$PYTHON" -m benchmarks.pack "$PACK" --unpack
    ;;
teacher)
    regard train translator-general-teacher --folder "$teacher" --resume "data.root=$FOLDER" \
        "text.tokenizer_from=$vocabulary" $SETTINGS
    ;;
distill)
    mkdir -p "$FOLDER/distilled"
    printf '%s\n' $JOBS | xargs -P "$PROCESSES" -I{} "$0" job {}
    ;;
job) # one part of distill: a direction, or a text and a language
    name=${1%-*} language=${1#*-}
    case $name in
    mono | tatoeba | europarl)
        text=$(ls "$FOLDER/train.$name.en.txt"*)
        regard translate "$teacher" --from en --to "$language" --format lines \
            -i "$text" -o "$FOLDER/distilled/train.$name.$language.txt"
        ;;
    *)
        regard distill "$teacher" --from "$name" --to "$language" --limit "$LIMIT" --folder "$FOLDER/distilled/$1"
        ln -f "$FOLDER/distilled/$1/train.$1."{src,tgt} "$FOLDER/distilled"
        ;;
    esac
    ;;
student)
    regard train translator-general --folder "$RUNS/translator-general" --resume "data.root=$FOLDER" \
        "text.tokenizer_from=$vocabulary" $SETTINGS
    regard compress "$RUNS/translator-general" --folder "$RUNS/general"
    ;;
search) # some of the teacher's data, so that it needs no teacher; losses are per token: compare vocabularies by BLEU
    sources=""
    for corpus in $SEARCH; do
        for language in de fr es zh; do
            sources+="{file=\"train.$corpus.$language.tsv\",src_lang=\"en\",tgt_lang=\"$language\",directions=\"both\"},"
        done
    done
    for shape in $SHAPES; do
        IFS=,+ read -r encoder decoder tokens width <<<"$shape"
        regard train translator-general --folder "$RUNS/search-$shape" --resume "data.root=$FOLDER" \
            "data.train=[$sources]" text.tokenizer_from= $SETTINGS "text.vocab_size=$tokens" "model.d_ff=$width" \
            "model.encoder_layers=$encoder" "model.decoder_layers=$decoder" \
            "training.max_steps=$SEARCH_STEPS" "training.validate_every=$SEARCH_STEPS"
    done
    regard compare "$RUNS"/search-* --on valid
    ;;
score)
    "$PYTHON" -m benchmarks.translator_scores "$FOLDER" "$@" --split valid
    ;;
dry)
    rm -rf "$DRY"
    export PACK=$DRY/pack READ=800 LIMIT=30 PROCESSES=2 PIECE_MIB=1 SEARCH_STEPS=2
    tiny="runtime.device=cpu model.d_model=32 model.num_heads=2 training.max_steps=3 training.warmup=1"
    tiny+=" training.batch_tokens=512 training.validate_every=3 decoding.max_length=20"
    tiny+=' data.valid=[{file="valid.written.de.tsv",src_lang="en",tgt_lang="de",directions="both"}]'
    export SETTINGS="$tiny text.vocab_size=3000" SHAPES="2+1,3000,64 3+1,3000,48"
    FOLDER=$DRY/data RUNS=$DRY/runs
    for step in "data $1" prepare pack; do "$0" $step; done
    mv "$DRY/data" "$DRY/data.here" && mv "$DRY/runs" "$DRY/runs.here"
    for step in unpack teacher distill student search "score $RUNS/general --limit 3"; do "$0" $step; done
    ;;
*)
    echo "unknown stage: $stage" >&2
    exit 2
    ;;
esac
