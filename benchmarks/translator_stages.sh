#!/usr/bin/env bash
# The stages of the bundled translator, each one command that continues where it was stopped:
#
#   benchmarks/translator_stages.sh data DATA     CPU: the corpora, split and cleaned                 -> $FOLDER
#   benchmarks/translator_stages.sh prepare       CPU: learn the vocabulary                           -> $RUNS/translator-general-vocabulary
#   benchmarks/translator_stages.sh pack          CPU: what the GPU's machine needs, in pieces        -> $PACK/1, $PACK/2 ...
#   benchmarks/translator_stages.sh unpack        there: $FOLDER and $RUNS from the pieces
#
# The first translator, from corpora and its own back-translations:
#
#   benchmarks/translator_stages.sh corpora       GPU: train translator-corpora                       -> $RUNS/translator-corpora
#   benchmarks/translator_stages.sh backtranslate GPU: translate English text with it                 -> $FOLDER/backtranslated
#   benchmarks/translator_stages.sh retrain       GPU: continue on both, store it in 8 bits           -> $RUNS/general
#   benchmarks/translator_stages.sh tune general first   train on short texts, the mean of both in 8 bits    -> $RUNS/first
#
# The second, from the first and a teacher's translations:
#
#   benchmarks/translator_stages.sh teacher-texts there, CPU: tokenise the teacher's texts            -> $RUNS/translator-general-teacher
#   benchmarks/translator_stages.sh student-texts CPU: tokenise the student's texts that are not the teacher's translations
#   benchmarks/translator_stages.sh teacher       GPU: train the teacher                              -> $RUNS/translator-general-teacher
#   benchmarks/translator_stages.sh distill       GPU: translate with the teacher                     -> $FOLDER/distilled
#   benchmarks/translator_stages.sh student       GPU: train the first translator on them, in 8 bits  -> $RUNS/distilled
#   benchmarks/translator_stages.sh tune distilled bundled                                            -> $RUNS/bundled
#   benchmarks/translator_stages.sh gpu           these one by one, and student-texts beside the teacher; teacher, distilled
#                                                 and bundled as pieces of at most 15 MiB             -> $RESULTS
#
#   benchmarks/translator_stages.sh search        GPU: short trainings of students of equal size      -> $RUNS/search-*
#   benchmarks/translator_stages.sh score RUN ... BLEU and chrF of runs on the development sets
#   benchmarks/translator_stages.sh dry DATA      all of them on a CPU with tiny models, in minutes   -> $DRY
#
# backtranslate and distill run PROCESSES processes on one GPU. distill translates JOBS: LIMIT sentences per direction (or as
# many as the job names, en-de:300000), English sentences into all languages, and everyday and Parliament sentences into
# Chinese. Seeds are those of the recipes. SETTINGS are settings for all trainings, TEACHER and STUDENT for one, e.g.
# TEACHER="training.max_steps=12000" for a slower GPU. With UNTIL (seconds since 1970), the student takes STEPS_PER_SECOND
# for the time that is left then instead of its recipe's steps. Paths are relative to this project.
set -euo pipefail
cd "$(dirname "$0")/.."
export FOLDER=${FOLDER:-data/translator} RUNS=${RUNS:-runs} PACK=${PACK:-build/pack} DRY=${DRY:-build/dry}
export RESULTS=${RESULTS:-build/results} PYTHON=${PYTHON:-python3} LIMIT=${LIMIT:-150000} PROCESSES=${PROCESSES:-7} BEAM=${BEAM:-2}
export SETTINGS=${SETTINGS:-} TEACHER=${TEACHER:-} STUDENT=${STUDENT:-} UNTIL=${UNTIL:-}
export PIECE_MIB=${PIECE_MIB:-24} READ=${READ:-} SEARCH_STEPS=${SEARCH_STEPS:-2500} SEARCH=${SEARCH:-tatoeba written game guides}
export STEPS_PER_SECOND=${STEPS_PER_SECOND:-50} MIN_STEPS=${MIN_STEPS:-4000}
export PYTHONPATH=src${PYTHONPATH:+:$PYTHONPATH}
SHAPES=${SHAPES:-"6+2,15000,1024 8+2,15000,672 12+1,15000,400 6+2,12000,1216 6+2,20000,712"} # layers, vocabulary, d_ff
JOBS=${JOBS:-"mono-zh mono-de mono-fr mono-es europarl-zh en-de:300000 de-en:200000 en-fr en-es en-zh fr-en es-en zh-en tatoeba-zh"}
BACKTRANSLATED=${BACKTRANSLATED:-"mono-zh mono-de mono-fr mono-es tatoeba-zh"} # English texts and languages
vocabulary=$RUNS/translator-general-vocabulary teacher=$RUNS/translator-general-teacher
first=$RUNS/translator-corpora second=$RUNS/translator-retrained
student=$RUNS/translator-general prepared=$RUNS/student-texts
STARTING=60 # seconds of the student that are no steps: compiling, validating

regard() { "$PYTHON" -m regard "$@"; }

prepare() { # recipe, folder, settings: tokenise in all cores; training by itself would use one to read
    [ -e "$2/store/train/manifest.json" ] || regard prepare "$1" --folder "$2" --parts 16 "${@:3}"
}

sources() { # recipe, folder or "": the recipe's training data without distilled files, with the back-translations in the folder
    "$PYTHON" - "$@" <<'END'
import json, os, sys, tomllib
from pathlib import Path
recipe, folder = sys.argv[1:]
read = tomllib.load(open(f"recipes/{recipe}.toml", "rb"))["data"]["train"]
read = [source for source in read if not source.get("file", "distilled/").startswith("distilled/")]
for path in sorted(Path(os.environ["FOLDER"], folder).glob("train.*.tsv")) if folder else ():
    language = path.name.split(".")[2]
    directions = "both" if language == "zh" else "forward"  # English is what people wrote
    file = f"{folder}/{path.name}"
    read.append({"file": file, "src_lang": language, "tgt_lang": "en", "directions": directions})
print("data.train=[" + ",".join("{" + ",".join(f"{k}={json.dumps(v)}" for k, v in s.items()) + "}" for s in read) + "]")
END
}

translate_text() { # run, text-language, output, options: English text into a language
    [ -e "$3" ] || regard backtranslate "$1" "$FOLDER/train.${2%-*}.en.txt"* --from en --to "${2#*-}" --precision auto -o "$3" "${@:4}"
}

shrink() { # run, name, options: a copy in 8 bits
    rm -rf "${RUNS:?}/$2"
    regard compress "$1" --folder "$RUNS/$2" "${@:3}"
}

keep() { # name: the pieces of a run
    rm -rf "${RESULTS:?}/$1"
    "$PYTHON" -m benchmarks.pack "$RESULTS/$1" "$RUNS/$1" --mib 15
}

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
    "$PYTHON" -m benchmarks.translator_tuning "$FOLDER"
    "$PYTHON" -m benchmarks.pack "$PACK" "$FOLDER" "$vocabulary" --mib "$PIECE_MIB"
    ;;
unpack)
    "$PYTHON" -m benchmarks.pack "$PACK" --unpack
    ;;
corpora)
    settings=("data.root=$FOLDER" "text.tokenizer_from=$vocabulary" $SETTINGS)
    prepare translator-corpora "$first" "${settings[@]}"
    regard train translator-corpora --folder "$first" --resume "${settings[@]}"
    ;;
backtranslate)
    mkdir -p "$FOLDER/backtranslated"
    printf '%s\n' $BACKTRANSLATED | xargs -P "$PROCESSES" -I{} "$0" backtranslate-job {}
    ;;
backtranslate-job) # one text and language
    translate_text "$first" "$1" "$FOLDER/backtranslated/train.${1%-*}.${1#*-}.tsv" --beam 2
    ;;
retrain) # the steps are those that fitted into 15 minutes, with all stages on the GPU
    settings=("data.root=$FOLDER" "start_from=$first" "$(sources translator-corpora backtranslated)" training.learning_rate=1.2e-3
        training.warmup=200 training.max_steps=13865 training.validate_every=13865 $SETTINGS)
    prepare translator-corpora "$second" "${settings[@]}"
    regard train translator-corpora --folder "$second" --resume "${settings[@]}"
    shrink "$second" general
    keep general
    ;;
tune) # from, to: names of runs
    tuned=$RUNS/tuned-$1
    regard train benchmarks/translator.toml --folder "$tuned" --resume "data.root=$FOLDER" "start_from=$RUNS/$1" $SETTINGS
    regard align "$tuned" --save --file "$(echo "$FOLDER"/valid.tatoeba.de.tsv*)" --columns src=1,tgt=2 --from en --to de \
        --sentences 250 || echo "no head for alignments is saved" >&2
    "$PYTHON" -m benchmarks.translator_tuning --mean "$RUNS/$1" "$tuned"
    shrink "$tuned" "$2" --checkpoint averaged
    ;;
teacher-texts)
    prepare translator-general-teacher "$teacher" "data.root=$FOLDER" "text.tokenizer_from=$vocabulary" $SETTINGS $TEACHER
    ;;
student-texts)
    prepare translator-general "$prepared" "data.root=$FOLDER" "start_from=$RUNS/first" $SETTINGS "$(sources translator-general "")"
    ;;
teacher)
    settings=("data.root=$FOLDER" "text.tokenizer_from=$vocabulary" $SETTINGS $TEACHER)
    "$0" teacher-texts
    regard train translator-general-teacher --folder "$teacher" --resume "${settings[@]}"
    ;;
distill)
    mkdir -p "$FOLDER/distilled"
    for attempt in 1 2; do # the second continues what failed, e.g. for lack of memory
        printf '%s\n' $JOBS | xargs -P "$PROCESSES" -I{} "$0" job {} && exit
    done
    exit 1
    ;;
job) # one part of distill: a direction, or an English text and a language; and a limit
    IFS=: read -r job limit <<<"$1"
    name=${job%-*} language=${job#*-} limit=${limit:-$LIMIT}
    case $name in
    mono | tatoeba | europarl) translate_text "$teacher" "$job" "$FOLDER/distilled/train.$name.$language.tsv" --beam "$BEAM" ;;
    *)
        regard distill "$teacher" --from "$name" --to "$language" --limit "$limit" --beam "$BEAM" --precision auto \
            --folder "$FOLDER/distilled/$job"
        ln -f "$FOLDER/distilled/$job/train.$job."{src,tgt} "$FOLDER/distilled"
        ;;
    esac
    ;;
student)
    settings=("data.root=$FOLDER" "start_from=$RUNS/first" $SETTINGS $STUDENT)
    if [ -d "$prepared/store/train/parts" ] && [ ! -e "$student" ]; then # equal parts are not made again
        prepare translator-general "$student" "${settings[@]}" --part 0
        mv "$prepared/store/train/parts" "$student/store/train"
    fi
    prepare translator-general "$student" "${settings[@]}"
    if [ -n "$UNTIL" ]; then
        steps=$(((UNTIL - $(date +%s) - STARTING) * STEPS_PER_SECOND))
        steps=$((steps < MIN_STEPS ? MIN_STEPS : steps))
        settings+=("training.max_steps=$steps" "training.validate_every=$((steps / 2))")
    fi
    regard train translator-general --folder "$student" --resume "${settings[@]}"
    shrink "$student" distilled
    ;;
gpu)
    "$0" teacher-texts
    nice "$0" student-texts &
    "$0" teacher
    shrink "$teacher" teacher
    keep teacher &
    for step in distill student; do "$0" $step; done
    keep distilled &
    "$0" tune distilled bundled
    keep bundled
    wait
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
            "data.train=[$sources]" start_from= $SETTINGS "text.vocab_size=$tokens" "model.d_ff=$width" \
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
    export PACK=$DRY/pack RESULTS=$DRY/results READ=300 LIMIT=30 PROCESSES=2 PIECE_MIB=1 SEARCH_STEPS=2 MIN_STEPS=2 UNTIL=0
    tiny="runtime.device=cpu model.d_model=32 model.num_heads=2 training.max_steps=3 training.warmup=1"
    tiny+=" training.batch_tokens=512 training.validate_every=3 decoding.max_length=20"
    tiny+=' data.valid=[{file="valid.written.de.tsv",src_lang="en",tgt_lang="de",directions="both"}]'
    export SETTINGS="$tiny text.vocab_size=3000" SHAPES="2+1,3000,64 3+1,3000,48"
    export JOBS=${JOBS//:?????0/:20}
    FOLDER=$DRY/data RUNS=$DRY/runs
    for step in "data $1" prepare pack; do "$0" $step; done
    mv "$DRY/data" "$DRY/data.here" && mv "$DRY/runs" "$DRY/runs.here"
    for step in unpack corpora backtranslate retrain; do "$0" $step; done
    for step in "tune general first" gpu search "score $RUNS/bundled --limit 3"; do "$0" $step; done
    rm -r "$RUNS/bundled" && "$PYTHON" -m benchmarks.pack "$RESULTS/bundled" --unpack
    regard info "$RUNS/bundled"
    ;;
*)
    echo "unknown stage: $stage" >&2
    exit 2
    ;;
esac
