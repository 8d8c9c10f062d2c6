//! A rename by the offline model is right or changes nothing (PAOR-2, HOST-4).

use std::process::Command;

use dirigent_tests::cli::{Ended, Place, ended};

const GOAL: &str = "Find all usages of function parse_price and rename it to read_price";

/// A Python package that exports the function, and a test with these lines.
fn shop(test: &[&str]) -> Place {
    let place = Place::new();
    place.write(
        "shop/__init__.py",
        "from .price import *\nfrom .price import parse_price as price\n\n__all__ = [\"parse_price\", \"price\"]\n",
    );
    place.write(
        "shop/price.pyi",
        "__all__ = [\"parse_price\"]\ndef parse_price(text: str) -> int: ...\n",
    );
    place.write(
        "shop/price.py",
        "__all__ = []\n__all__ += [\"parse_price\"]\n\n\ndef parse_price(text):\n    return int(text)\n",
    );
    let lines: String = test.iter().map(|line| format!("        {line}\n")).collect();
    place.write(
        "test_shop.py",
        &format!(
            "import unittest\nimport shop\nfrom shop import *\n\n\nclass Prices(unittest.TestCase):\n    \
             def test_price(self):\n{lines}"
        ),
    );
    place
}

/// A shop whose test looks the function up by name at run time, so that parsing cannot find the usage.
fn shop_with_a_lookup() -> Place {
    shop(&["self.assertEqual(getattr(shop, \"parse_price\")(\"1\"), 1)"])
}

fn summary(ended: &Ended) -> &str {
    let (_, summary) = ended.stdout.split_once(" tokens.\n\n").unwrap();
    summary
}

#[test]
fn paor_2_exports_of_a_python_module_are_renamed() {
    let place = shop(&["self.assertEqual(parse_price(\"1\"), 1)"]);

    let run = place.run(GOAL).with_code(0);

    assert!(
        summary(&run).contains("Confirmed by `python3 -B -m unittest discover` (1 test passed)."),
        "{run}"
    );
    assert_eq!(
        place.read("shop/price.py"),
        "__all__ = []\n__all__ += [\"read_price\"]\n\n\ndef read_price(text):\n    return int(text)\n"
    );
    assert_eq!(
        place.read("shop/price.pyi"),
        "__all__ = [\"read_price\"]\ndef read_price(text: str) -> int: ...\n"
    );
    let mut python = Command::new("python3");
    place.settle(&mut python);
    let import = "from shop import *; import shop; [getattr(shop, name) for name in shop.__all__]; print(read_price('2'))";
    let imported = ended(python.args(["-B", "-c", import]).current_dir(place.work())).with_code(0);
    assert_eq!(imported.stdout, "2\n");
}

#[test]
fn host_4_a_rename_that_breaks_the_tests_is_undone_byte_for_byte() {
    let place = shop_with_a_lookup();
    let before = place.files();

    let run = place.run(GOAL).with_code(1);

    assert!(place.files() == before, "{run}");
    let told = summary(&run);
    assert!(
        told.starts_with("The change broke the project, and the check's output does not point to any comment or text file with `parse_price`"),
        "{run}"
    );
    assert!(
        told.contains("AttributeError: module 'shop' has no attribute 'parse_price'"),
        "{run}"
    );
    assert!(
        told.contains("\nThese files were restored: shop/__init__.py, shop/price.py and shop/price.pyi."),
        "{run}"
    );
    assert!(!told.contains("Changed "), "{run}");
    let undo = place.dirigent(["undo", "last", "--yes"]).with_code(0);
    assert!(undo.stdout.starts_with("Nothing to undo: "), "{undo}");
    let diff = place.dirigent(["diff", "last"]).with_code(0);
    assert_eq!(diff.stdout, "");
}

#[test]
fn host_4_a_change_that_breaks_the_tests_stays_if_the_user_keeps_it() {
    let in_words = format!("{GOAL} and keep the changes even if the tests fail");
    for arguments in [
        vec!["run", in_words.as_str(), "--workspace", "work"],
        vec!["run", GOAL, "--keep", "--workspace", "work"],
    ] {
        let place = shop_with_a_lookup();

        let run = place.dirigent(arguments).with_code(1);

        assert!(place.read("shop/price.py").contains("def read_price("), "{run}");
        let told = summary(&run);
        assert!(told.starts_with("The change broke the project, "), "{run}");
        assert!(told.contains("shop/price.py"), "{run}");
        assert!(!told.contains("restored"), "{run}");
    }
}

#[test]
fn host_4_changes_by_somebody_else_are_not_undone() {
    // given a test that writes to a file of the rename, as a formatter does
    let place = shop(&[
        "with open('shop/price.pyi', 'a') as stub: stub.write('# seen\\n')",
        "self.assertEqual(getattr(shop, \"parse_price\")(\"1\"), 1)",
    ]);
    let before = place.read("shop/price.py");

    let run = place.run(GOAL).with_code(1);

    assert_eq!(place.read("shop/price.py"), before);
    let stub = place.read("shop/price.pyi");
    assert!(
        stub.contains("read_price") && stub.ends_with("# seen\n"),
        "{stub}"
    );
    assert!(
        summary(&run).contains(
            "\nSome files could not be restored:\n- shop/price.pyi: it has changed since the run changed it\n"
        ),
        "{run}"
    );
}

#[test]
fn host_4_a_replacement_that_breaks_the_tests_is_undone() {
    let place = shop(&["self.assertEqual(parse_price(\"1\"), 1)"]);
    let before = place.files();

    let run = place
        .run("replace \"int(text)\" with \"float(txt)\"")
        .with_code(1);

    assert!(place.files() == before, "{run}");
    assert!(
        summary(&run).contains("\nThese files were restored: shop/price.py."),
        "{run}"
    );
}

#[test]
fn paor_2_a_missing_old_name_fails_with_the_nearest_even_if_the_new_name_exists() {
    let place = shop(&["self.assertEqual(parse_price(\"1\"), 1)"]);
    let before = place.files();

    let run = place.run("rename parse_prices to price").with_code(1);

    assert!(
        summary(&run).starts_with(
            "There is no function or other symbol `parse_prices`. Did you mean `parse_price`? `price` exists, "
        ),
        "{run}"
    );
    assert!(place.files() == before, "{run}");
}

#[test]
fn paor_2_rusts_inline_format_arguments_are_renamed_and_other_text_is_not() {
    let place = Place::new();
    place.write(
        "Cargo.toml",
        "[package]\nname = \"shop\"\nversion = \"1.0.0\"\nedition = \"2024\"\n",
    );
    place.write(
        "src/lib.rs",
        "pub fn price(price: u32) -> String {\n    assert!(price < 100, \"{price}\");\n    \
         format!(\"{{price}} price {price:>4} {}\", \"{price}\")\n}\n\n\
         #[test]\nfn a_price_is_written() {\n    assert_eq!(price(7), \"{price} price    7 {price}\");\n}\n",
    );

    let run = place.run("rename price to cost").with_code(0);

    assert_eq!(
        place.read("src/lib.rs"),
        "pub fn cost(cost: u32) -> String {\n    assert!(cost < 100, \"{cost}\");\n    \
         format!(\"{{price}} price {cost:>4} {}\", \"{price}\")\n}\n\n\
         #[test]\nfn a_price_is_written() {\n    assert_eq!(cost(7), \"{price} price    7 {price}\");\n}\n"
    );
    assert!(
        summary(&run).contains("Confirmed by `cargo check --all-targets` and `cargo test` (1 test passed)."),
        "{run}"
    );
}

const RUST: &str = "use std::collections::HashMap;\n\nstruct Cart { lines: HashMap<String, u32> }\n\n\
    impl std::fmt::Display for Cart {\n    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {\n        \
    write!(f, \"{}\", self.lines.len())\n    }\n}\n\n\
    fn unwrap_line(cart: &Cart) -> u32 {\n    let most = u32::MAX.min(9);\n    cart.lines.get(\"a\").copied().unwrap().min(most)\n}\n";
const GO: &str = "package shop\n\nimport (\n\t\"fmt\"\n\t\"sync\"\n)\n\ntype Cart struct{ lock sync.Mutex }\n\n\
    func (cart *Cart) PrintLine() {\n\tcart.lock.Lock()\n\tfmt.Println(len(\"a\"))\n}\n";
const SCRIPT: &str = "const events = require(\"events\");\nconst { EventEmitter } = require(\"events\");\n\n\
    class Cart extends EventEmitter { emitLine() { this.emit(\"line\", new events.EventEmitter()); } }\n\
    module.exports = { Cart };\n";

#[test]
fn paor_2_a_librarys_member_is_not_renamed_without_a_compiler() {
    for (path, text, name, hint) in [
        ("cart.rs", RUST, "unwrap", " Did you mean `unwrap_line`?"),
        ("cart.rs", RUST, "HashMap", ""),
        ("cart.rs", RUST, "copied", ""),
        ("cart.rs", RUST, "Display", ""),
        ("cart.rs", RUST, "fmt", ""),
        ("cart.rs", RUST, "write", ""),
        ("cart.rs", RUST, "MAX", ""),
        ("cart.rs", RUST, "min", ""),
        ("cart.go", GO, "Println", " Did you mean `PrintLine`?"),
        ("cart.go", GO, "Mutex", ""),
        ("cart.go", GO, "Lock", " Did you mean `lock`?"),
        ("cart.go", GO, "fmt", ""),
        ("cart.go", GO, "len", ""),
        ("cart.js", SCRIPT, "EventEmitter", ""),
        ("cart.js", SCRIPT, "emit", ""),
    ] {
        let place = Place::new();
        place.write(path, text);
        let before = place.files();

        let run = place
            .run(&format!(
                "Find all usages of function {name} and rename it to other"
            ))
            .with_code(1);

        let told = summary(&run);
        assert!(
            told.starts_with(&format!(
                "`{name}` seems to belong to something outside of this workspace, first at {path}:"
            )),
            "{run}"
        );
        let end = format!("A rename here would break it.{hint} Nothing was changed.");
        assert!(told.contains(&end), "{run}");
        assert!(place.files() == before, "{run}");
    }
}

#[test]
fn paor_2_a_name_defined_in_the_workspace_is_renamed_without_a_compiler() {
    for (path, text, name) in [
        ("cart.rs", RUST, "Cart"),
        ("cart.rs", RUST, "lines"),
        ("cart.rs", RUST, "unwrap_line"),
        ("cart.rs", RUST, "most"),
        ("cart.go", GO, "Cart"),
        ("cart.go", GO, "lock"),
        ("cart.go", GO, "cart"),
        ("cart.go", GO, "PrintLine"),
    ] {
        let place = Place::new();
        place.write(path, text);
        place.write(&format!("other/{path}"), text);

        let run = place
            .run(&format!(
                "Find all usages of function {name} and rename it to other"
            ))
            .with_code(0);

        let of = |text: &str, word: &str| {
            let words = text.split(|character: char| !character.is_alphanumeric() && character != '_');
            words.filter(|one| *one == word).count()
        };
        for path in [path, &format!("other/{path}")] {
            assert_eq!(of(&place.read(path), name), 0, "{run}");
            assert_eq!(of(&place.read(path), "other"), of(text, name), "{run}");
        }
    }
}

#[test]
fn paor_2_exports_of_a_commonjs_module_are_renamed() {
    let place = Place::new();
    place.write(
        "price.js",
        "function parse_price(text) { return Number(text); }\nmodule.exports = { parse_price };\n",
    );
    place.write(
        "cart.js",
        "const { parse_price } = require(\"./price\");\nconsole.log(parse_price(\"1\"));\n",
    );

    let _ = place.run(GOAL).with_code(0);

    assert_eq!(
        place.read("price.js"),
        "function read_price(text) { return Number(text); }\nmodule.exports = { read_price };\n"
    );
    assert_eq!(
        place.read("cart.js"),
        "const { read_price } = require(\"./price\");\nconsole.log(read_price(\"1\"));\n"
    );
}

#[test]
fn paor_2_a_variable_that_python_formats_by_its_name_is_renamed_in_the_text() {
    let place = Place::new();
    place.write(
        "shop.py",
        "def show(price):\n    text = \"price {price:>4}\".format(**locals())\n    return text + \" %(price)s\" % vars()\n\n\nprint(show(5))\n",
    );

    let _ = place.run("rename price to cost").with_code(0);

    let mut python = Command::new("python3");
    place.settle(&mut python);
    let shown = ended(python.args(["-B", "shop.py"]).current_dir(place.work())).with_code(0);
    assert_eq!(shown.stdout, "price    5 5\n");
    assert_eq!(
        place.read("shop.py"),
        "def show(cost):\n    text = \"price {cost:>4}\".format(**locals())\n    return text + \" %(cost)s\" % vars()\n\n\nprint(show(5))\n"
    );
}
