# Completion of ./yotta for bash: source course/completion/yotta.bash
# Written by build/release/course/runner completion.
_yotta_folders() { (cd "$1/$2" 2>/dev/null && for each in [0-9][0-9]_*/; do echo "${each%%_*}" "${each%/}"; done); }
_yotta_exercises() { _yotta_folders "$1" exercises; }
_yotta_lessons() { _yotta_folders "$1" lessons; }
_yotta_tasks() {
  _yotta_exercises "$1"
  case $2 in [0-9]*) sed -n 's/.*"id": "\([0-9.]*\)".*/\1/p' "$1"/exercises/*/exercise.json ;; esac
}
_yotta_benchmarks() { (cd "$1/bench" && for each in *.cpp; do echo "${each%.cpp}"; done); }
_yotta_takes_a_file() { case $1 in --file | --json | --out | --html | --hidden | --against) true ;; *) false ;; esac; }
_yotta_options() { "$1/build/release/course/$2" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*' | sort -u; }

_yotta() {
  local word=${COMP_WORDS[COMP_CWORD]} words= root
  root=$(dirname "$(readlink -f "${COMP_WORDS[0]}")")
  if [ "$COMP_CWORD" = 1 ]; then words="autograder bench book check clean collect docs doctor exercise grade handout help hint learn lesson list notebook plan predict reset similarity slides test tour train"; else
    case ${COMP_WORDS[1]} in
    autograder) words="--help --exercises --out --variant --json --visibility" ;;
    bench) words="--help --json $(_yotta_benchmarks "$root" bench)" ;;
    book) words="--help --build --json" ;;
    check) words="--help --file --json --verbose --lines --asan --variant --no-asan --hint --afresh $(_yotta_tasks "$root" "$word")" ;;
    clean) words="--help" ;;
    collect) words="--help --out --json" ;;
    docs) words="--help --json" ;;
    doctor) words="--help --json --packages" ;;
    exercise) words="--help new verify" ;;
    grade) words="--help --out --json --names --exercises --jobs --hidden --variant --visibility" ;;
    handout) words="--help --exercises --out --variant --native --json --no-check" ;;
    help) words="" ;;
    hint) words="--help $(_yotta_tasks "$root" "$word")" ;;
    learn) words="--help --poll --watch --variant $(_yotta_exercises "$root" learn)" ;;
    lesson) words="--help --json $(_yotta_lessons "$root" lesson)" ;;
    list) words="--help --json" ;;
    notebook) words="--help --execute --refresh --format $(_yotta_lessons "$root" notebook)" ;;
    plan) words="$(_yotta_options "$root" plan)" ;;
    predict) words="--help $(_yotta_lessons "$root" predict)" ;;
    reset) words="--help --yes $(_yotta_exercises "$root" reset)" ;;
    similarity) words="--help --against --exercises --threshold --html --json" ;;
    slides) words="--help --out --json $(_yotta_lessons "$root" slides)" ;;
    test) words="--help --only --long --json release gcc asan tsan book" ;;
    tour) words="$(_yotta_options "$root" tour)" ;;
    train) words="$(_yotta_options "$root" train)" ;;
    esac
  fi
  if _yotta_takes_a_file "${COMP_WORDS[COMP_CWORD - 1]}"; then words=; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _yotta yotta ./yotta
