from draftwire.cli import app

app(prog_name="draftwire")
