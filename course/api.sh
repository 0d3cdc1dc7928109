# shellcheck shell=sh disable=SC2154
# `./yotta docs`: the API reference, from the headers' own comments. Read by `yotta`.

docs_help() {
  cat <<'END'
Usage: ./yotta docs [--json]

Makes the API reference of the library in build/docs/html with Doxygen: every header, class and function, by lesson and
by name, with what the headers say of them.
  --json   print where it begins as JSON
END
}

docs() {
  case "$#/${1:-}" in
    0/ | 1/--json) ;;
    1/--help | 1/-h)
      docs_help
      return 0
      ;;
    *)
      docs_help >&2
      return 2
      ;;
  esac
  have doxygen || {
    say "yotta: Doxygen is not installed (Debian, Ubuntu: apt-get install doxygen)"
    return 1
  }
  out=$root/build/docs
  rm -rf "$out" && mkdir -p "$out"
  awk -v lessons="$root/lessons" -f "$root/course/api/contents.awk" "$root/lessons/pages.json" >"$out/contents.md"
  say "yotta: making the API reference; half a minute"
  ROOT=$root OUT=$out doxygen "$root/course/api/Doxyfile" >&2 || return 1
  if [ "${1:-}" = --json ]; then printf '{"index": "%s"}\n' "$out/html/index.html"; else echo "$out/html/index.html"; fi
}
