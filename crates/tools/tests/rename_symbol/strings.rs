//! Code in strings: `__all__`, format strings, interpolation.

use super::check;

#[tokio::test]
async fn paor_2_names_in_pythons_dunder_all_are_renamed() {
    for name in ["a.py", "a.pyi"] {
        let output = check(
            name,
            r#"__all__ = ["old", 'other', "older"]
__all__ = ("other", "old")
__all__: list[str] = ["old"]
__all__ = sorted(["old"] + other.__all__)
__all__ += ["old"]
__all__.extend(["old"])
__all__.append("old")
if True:
    __all__ += ("old",)
from .a import old as old

def old(): ...
"#,
            r#"__all__ = ["new_name", 'other', "older"]
__all__ = ("other", "new_name")
__all__: list[str] = ["new_name"]
__all__ = sorted(["new_name"] + other.__all__)
__all__ += ["new_name"]
__all__.extend(["new_name"])
__all__.append("new_name")
if True:
    __all__ += ("new_name",)
from .a import new_name as new_name

def new_name(): ...
"#,
        )
        .await;
        assert_eq!(output["occurrences"], 11);
        assert_eq!(output["totals"].get("mentions"), None);
    }
}

#[tokio::test]
async fn strings_that_only_resemble_entries_of_pythons_dunder_all_are_not_renamed() {
    let text = r#"names = ["old"]
__all__ = [name for name in names if name != "old"]
__all__ = [pick("old"), b"old", "an old", "a" "old", {"old": 1}]
names.extend(["old"])
def local():
    __all__ = ["old"]
class Kind:
    __all__ = ["old"]
"#;
    let output = check("a.py", &format!("{text}old()\n"), &format!("{text}new_name()\n")).await;
    assert_eq!(output["occurrences"], 1);
    assert_eq!(output["totals"]["mentions"], 10);
}

#[tokio::test]
async fn paor_2_names_in_rusts_format_strings_are_renamed() {
    let output = check(
        "a.rs",
        r##"fn f() -> Result<()> {
    println!("{old} {old:?} {old:>width$} {x:>old$} {{old}} old \n{}", "{old}");
    let text = vec![format!(r#"{old}"#), std::format!("a" , "{old}")];
    write!(out, "{old}")?;
    assert!(a < b && f::<A>(), "{old}");
    assert_eq!(f("{old}"), "{old}", "{old}");
    tracing::info!(target: "{old}", field = "{old}", "{old}", "{old}");
    log::log!(Level::Info, "{old}");
    bail!("{old}");
    other!("{old}"); concat!("{old}"); b!(b"{old}"); println!(b"{old}");
    assert_eq!(f::<A, B>(), "{old}");
}
macro_rules! m { () => { panic!("{old}") } }
#[error("bad {old}")]
struct S { old: u8 }
#[doc("{old}")]
mod m {}
"##,
        r##"fn f() -> Result<()> {
    println!("{new_name} {new_name:?} {new_name:>width$} {x:>new_name$} {{old}} old \n{}", "{old}");
    let text = vec![format!(r#"{new_name}"#), std::format!("a" , "{old}")];
    write!(out, "{new_name}")?;
    assert!(a < b && f::<A>(), "{new_name}");
    assert_eq!(f("{old}"), "{old}", "{new_name}");
    tracing::info!(target: "{old}", field = "{old}", "{new_name}", "{old}");
    log::log!(Level::Info, "{new_name}");
    bail!("{new_name}");
    other!("{old}"); concat!("{old}"); b!(b"{old}"); println!(b"{old}");
    assert_eq!(f::<A, B>(), "{old}");
}
macro_rules! m { () => { panic!("{new_name}") } }
#[error("bad {new_name}")]
struct S { new_name: u8 }
#[doc("{old}")]
mod m {}
"##,
    )
    .await;
    assert_eq!(output["occurrences"], 14);
}

#[tokio::test]
async fn paor_2_names_in_pythons_formatted_literals_are_renamed() {
    let output = check(
        "a.py",
        r#"def f(old, a):
    x = "{old} {old!r:>9} {a:{old}} {old.a[0]} {{old}} old {older} \N{old}".format(**locals())
    x = ("{old}" 'é {old}').format(a=1, **vars())
    x = "{old}".format_map(locals())
    x = "%(old)s %(old)5d %%(old)s %%%(old)s (old)" % locals()
    x = "{old} {a}".format(old=1)
"#,
        r#"def f(new_name, a):
    x = "{new_name} {new_name!r:>9} {a:{new_name}} {new_name.a[0]} {{old}} old {older} \N{old}".format(**locals())
    x = ("{new_name}" 'é {new_name}').format(a=1, **vars())
    x = "{new_name}".format_map(locals())
    x = "%(new_name)s %(new_name)5d %%(old)s %%%(new_name)s (old)" % locals()
    x = "{new_name} {a}".format(new_name=1)
"#,
    )
    .await;
    assert_eq!(output["occurrences"], 13);
}

#[tokio::test]
async fn strings_that_python_formats_with_something_else_are_text() {
    let text = r#"x = "{old} %(old)s"
y = "{old}".format(a, a=1)
y = "{old}".format(**data)
y = "{old}".format_map(data)
y = "{old}".other(**locals())
y = "%(old)s" % data
y = b"%(old)s" % locals()
y = "%(old)s" + locals()
y = locals() % "%(old)s"
"#;
    let output = check("a.py", &format!("{text}old()\n"), &format!("{text}new_name()\n")).await;
    assert_eq!(output["occurrences"], 1);
    assert_eq!(output["totals"]["mentions"], 10);
}

#[tokio::test]
async fn interpolated_expressions_are_renamed_and_the_text_around_them_is_not() {
    let python = "f\"old {old(x)} {{old}} {old:{old}}\" + 'old'\n";
    let renamed = "f\"old {new_name(x)} {{old}} {new_name:{new_name}}\" + 'old'\n";
    let _ = check("a.py", python, renamed).await;
    let script = "`old ${old(`${old} old`)} \\${old}` + 'old ${old}';\n";
    let renamed = "`old ${new_name(`${new_name} old`)} \\${old}` + 'old ${old}';\n";
    let _ = check("a.ts", script, renamed).await;
}
