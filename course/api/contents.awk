# The first page of the API reference, from lessons/pages.json: headers by lesson.
# awk -v lessons=FOLDER -f contents.awk pages.json
function heading(text) { printf "\n## %s\n\n", text }
function title(id,  line) {
  getline line < (lessons "/" id "/README.md")
  sub(/^# /, "", line)
  return substr(id, 1, 2) ". " line
}
BEGIN { print "# The headers of Yotta, by lesson"; FS = "\"" }
{
  for (i = 2; i <= NF; i += 2) {
    if ($i ~ /\.hpp$/) printf "- \\ref yotta/%s \"%s\"\n", $i, $i
    else if ($i == "foundations") heading("What everything uses")
    else if ($i == "machinery") heading("What runs a whole model")
    else if (before == "lesson") heading(title($i))
    before = $i
  }
}
