//! Files written by real Paddle are reproduced byte by byte; damaged files give errors.

use super::tensor_file::*;
use super::*;
use crate::base::DType;

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("../../../../tests/static/data/", $name)).as_slice()
    };
}

/// Under Miri, a thousand times slower, only the smallest one.
const PROGRAMS: &[&[u8]] = if cfg!(miri) {
    &[data!("pd26_lenet.program")]
} else {
    &[data!("pd18_sequence.program"), data!("pd26_while.program"), data!("pd26_lenet.program")]
};

/// A small deterministic generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() as usize) % n
    }
}

#[test]
fn files_of_paddle_come_out_as_they_went_in() {
    for &bytes in PROGRAMS {
        let program = Program::parse(bytes).unwrap();
        assert!(program.to_bytes() == bytes);
        assert!(program.copy().to_bytes() == bytes);
        for block in program.blocks() {
            for op in block.all_ops() {
                let desc = op.read().clone();
                assert_eq!(OpDesc::decode(&desc.to_bytes()).unwrap(), desc);
            }
        }
    }
}

#[test]
fn contents_of_a_file() {
    let program = Program::parse(data!("pd18_sequence.program")).unwrap();
    assert_eq!((program.version(), program.block_count()), (1_008_005, 3));
    let global = program.block(0).unwrap();
    let lookup = global.all_ops().into_iter().find(|op| op.op_type().starts_with("lookup_table")).unwrap();
    assert_eq!(lookup.attr("is_sparse"), Some(Attr::Boolean(true)));
    assert_eq!(lookup.read().input("Ids").unwrap(), ["w"]);
    let w = global.find_var("w").unwrap();
    assert_eq!(w.read().dtype().unwrap(), DType::I64);
    assert_eq!(w.read().shape().unwrap(), [-1, 1]);
    assert_eq!(w.read().lod_level().unwrap(), 1);
    let control = global.all_ops().into_iter().find(|op| op.op_type() == "while").unwrap();
    let Some(Attr::Block(inner)) = control.attr("sub_block") else { panic!("while without a block") };
    let inner = program.block(inner).unwrap();
    assert!(inner.find_var("w").is_none() && inner.find_var_recursive("w").is_some());
}

#[test]
fn fields_of_newer_versions_survive() {
    let mut bytes = Program::new().to_bytes();
    bytes.extend_from_slice(&[0xfa, 0x07, 2, 1, 2]); // field 127: two bytes
    bytes.extend_from_slice(&[0xf0, 0x07, 5]); // field 126: a number
    bytes.extend_from_slice(&[0xeb, 0x07, 0x08, 1, 0xec, 0x07]); // field 125: a group
    assert_eq!(Program::parse(&bytes).unwrap().to_bytes(), bytes);

    // An attribute of an unknown type.
    let mut op = OpDesc::new("scale");
    op.attrs.insert("bias", Attr::Float(0.5));
    let mut bytes = op.to_bytes();
    let attr = [&[0x0a, 3][..], b"new", &[0x10, 99, 0xf8, 0x07, 7]].concat();
    bytes.push(0x22);
    bytes.push(attr.len() as u8);
    bytes.extend_from_slice(&attr);
    let read = OpDesc::decode(&bytes).unwrap();
    assert_eq!(read.attrs.get("new").unwrap().kind(), AttrType::Foreign);
    assert_eq!(read.to_bytes(), bytes);
}

#[test]
fn packed_lists_and_messages_in_pieces_are_read() {
    // VarDesc "x": its type comes in two pieces, the second with packed dims.
    let mut tensor = vec![0x08, 5, 0x12, 3, 2, 0x80, 0x01];
    let mut lod = vec![0x0a, tensor.len() as u8];
    lod.append(&mut tensor);
    let mut second = vec![0x1a, lod.len() as u8];
    second.append(&mut lod);
    let mut bytes = vec![0x0a, 1, b'x', 0x12, 2, 0x08, 7, 0x12, second.len() as u8];
    bytes.append(&mut second);
    let var = VarDesc::decode(&bytes).unwrap();
    assert_eq!(var.shape().unwrap(), [2, 128]);
    assert_eq!(var.dtype().unwrap(), DType::F32);
}

#[test]
fn every_attribute_survives() {
    use attr::Scalar;
    let values = [
        Attr::Int(-3),
        Attr::Float(0.1),
        Attr::String("a".into()),
        Attr::Ints(vec![i32::MIN, 0]),
        Attr::Floats(vec![f32::INFINITY, -0.0]),
        Attr::Strings(vec![String::new(), "b".into()]),
        Attr::Boolean(true),
        Attr::Booleans(vec![false, true]),
        Attr::Block(0),
        Attr::Long(i64::MIN),
        Attr::Blocks(vec![0, 0]),
        Attr::Longs(vec![]),
        Attr::Float64s(vec![1e300]),
        Attr::Bytes(vec![0xff, 0]),
        Attr::Var("v".into()),
        Attr::Vars(vec!["v".into()]),
        Attr::Float64(0.1),
        Attr::Scalar(Scalar::Long(-1)),
        Attr::Scalars(vec![Scalar::Float64(0.5), Scalar::Boolean(true), Scalar::Complex(1.0, 2.0)]),
    ];
    let mut op = OpDesc::new("x");
    for (i, value) in values.into_iter().enumerate() {
        op.attrs.insert(format!("a{i}"), value);
    }
    assert_eq!(OpDesc::decode(&op.to_bytes()).unwrap(), op);
}

#[test]
fn newer_numbers_in_types_that_2_0_2_knows() {
    use attr::Scalar::*;
    let rows = [
        (Attr::Float64(0.5), Attr::Float(0.5)),
        (Attr::Scalar(Long(3)), Attr::Int(3)),
        (Attr::Scalar(Long(1 << 40)), Attr::Long(1 << 40)),
        (Attr::Scalars(vec![Long(1), Boolean(true)]), Attr::Longs(vec![1, 1])),
        (Attr::Scalars(vec![Float64(1.5), Long(2)]), Attr::Float64s(vec![1.5, 2.0])),
        (Attr::Scalars(vec![Complex(1.0, 0.0)]), Attr::Scalars(vec![Complex(1.0, 0.0)])),
        (Attr::Int(1), Attr::Int(1)),
    ];
    for (newer, plain) in rows {
        assert_eq!(newer.plain(), plain);
    }
}

#[test]
fn damaged_programs_give_errors() {
    let mut random = Random(7);
    let (mut good, mut bad) = (0, 0);
    let (cuts, damages) = if cfg!(miri) { (5, 8) } else { (3000, 4000) };
    for &bytes in PROGRAMS {
        for cut in 0..bytes.len().min(cuts) {
            // A cut between two blocks is a smaller file, any other cut an error; neither panics.
            let _ = Program::parse(&bytes[..cut]);
        }
        for _ in 0..damages {
            let mut damaged = bytes.to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(damaged.len());
                match random.below(4) {
                    0 => damaged[at] = random.next() as u8,
                    1 => damaged[at] ^= 1 << random.below(8),
                    2 => drop(damaged.drain(at..(at + random.below(9)).min(damaged.len()))),
                    _ => damaged.splice(at..at, [0xff; 9]).for_each(drop),
                }
            }
            match Program::parse(&damaged) {
                Ok(program) => {
                    let _ = (program.feed_targets(), program.fetch_targets());
                    let again = program.to_bytes();
                    assert!(Program::parse(&again).unwrap().to_bytes() == again);
                    good += 1;
                }
                Err(_) => bad += 1,
            }
        }
    }
    assert!(good > damages / 40 && bad >= damages / 4, "{good} {bad}");
}

#[test]
fn blocks_that_are_not_there_are_refused() {
    let mut desc = ProgramDesc::default();
    let mut op = OpDesc::new("while");
    op.attrs.insert("sub_block", Attr::Block(1));
    desc.blocks[0].ops.push(op);
    assert!(Program::from_desc(desc.clone()).is_err());
    desc.blocks.push(BlockDesc::new(1, 0));
    assert!(Program::from_desc(desc.clone()).is_ok());
    desc.blocks[1].parent_idx = 1;
    assert!(Program::from_desc(desc).is_err());
    let program = Program::new();
    assert!(program.append_block(1).is_err());
    assert!(program.append_block(0).is_ok());
}

#[test]
fn every_change_is_counted() {
    let program = Program::new();
    let block = program.block(0).unwrap();
    let mut last = program.revision();
    let mut changed = |what: &str, expected: bool| {
        assert_eq!(program.revision() != last, expected, "{what}");
        last = program.revision();
    };
    let var = block.var("x");
    changed("var", true);
    block.var("x");
    changed("var again", false);
    var.set_shape(&[2]).unwrap();
    changed("set_shape", true);
    var.set_shape(&[2]).unwrap();
    changed("set_shape to the same", false);
    let op = block.append_op(OpDesc::new("relu"));
    changed("append_op", true);
    op.set_attr("a", Attr::Int(1));
    changed("set_attr", true);
    block.rename_var("x", "y");
    changed("rename_var", true);
    block.remove_ops(0, 1);
    changed("remove_ops", true);
    op.set_attr("a", Attr::Int(2));
    assert_eq!((op.op_type().as_str(), block.op_count()), ("relu", 0));
    block.remove_var("none");
    last = program.revision();
    assert_eq!(program.revision(), last);
    assert_ne!(Program::new().uid(), program.uid());
}

#[test]
fn feed_columns_are_bounded() {
    let program = Program::new();
    let block = program.block(0).unwrap();
    let mut op = OpDesc::new("feed");
    op.set_output("Out", vec!["x".into()]);
    op.attrs.insert("col", Attr::Int(i32::MAX));
    let op = block.append_op(op);
    assert!(program.feed_targets().is_err());
    op.set_attr("col", Attr::Int(-1));
    assert!(program.feed_targets().is_err());
    op.set_attr("col", Attr::Int(0));
    assert_eq!(program.feed_targets().unwrap(), ["x"]);
}

#[test]
fn tensor_files_of_paddle() {
    let bytes = data!("pd18_lod_tensor.bin");
    let (dtype, dims, lod, data) = read_lod_tensor(&mut &*bytes).unwrap();
    assert_eq!((dtype, dims.as_slice()), (DType::F32, &[5, 2][..]));
    assert_eq!(lod, [vec![0, 2, 3], vec![0, 1, 3, 5]]);
    assert_eq!(data[36..], 9f32.to_le_bytes());
    let mut out = Vec::new();
    write_lod_tensor(dtype, &dims, &lod, &data, &mut out).unwrap();
    assert_eq!(out, bytes);

    let bytes = data!("pd18_selected_rows.bin");
    let (rows, height, dtype, dims, data) = read_selected_rows(&mut &*bytes).unwrap();
    assert_eq!((rows.as_slice(), height, dtype, dims.as_slice()), (&[0, 4, 7][..], 10, DType::F64, &[3, 2][..]));
    let mut out = Vec::new();
    write_selected_rows(&rows, height, dtype, &dims, &data, &mut out).unwrap();
    assert_eq!(out, bytes);
    assert!(write_lod_tensor(DType::F32, &[2], &Lod::new(), &[0; 4], &mut Vec::new()).is_err());
}

#[test]
fn damaged_tensor_files_give_errors() {
    let mut random = Random(3);
    for bytes in [data!("pd18_lod_tensor.bin"), data!("pd18_selected_rows.bin")] {
        for cut in (0..bytes.len()).step_by(if cfg!(miri) { 16 } else { 1 }) {
            assert!(read_lod_tensor(&mut &bytes[..cut]).is_err());
            assert!(read_selected_rows(&mut &bytes[..cut]).is_err());
        }
        for _ in 0..if cfg!(miri) { 20 } else { 5000 } {
            let mut damaged = bytes.to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len());
                damaged[at] = random.next() as u8;
            }
            let _ = read_lod_tensor(&mut damaged.as_slice());
            let _ = read_selected_rows(&mut damaged.as_slice());
        }
    }
    // A shape that promises far more than the file holds allocates no memory for it.
    let mut huge = Vec::new();
    huge.extend_from_slice(&[0; 16]);
    let desc = [&[0x08, 5, 0x10][..], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x02]].concat();
    huge.extend_from_slice(&(desc.len() as i32).to_le_bytes());
    huge.extend_from_slice(&desc);
    let (header, _) = read_lod_tensor_header(&mut huge.as_slice()).unwrap();
    assert_eq!(header.bytes, 4 << 36);
    assert!(read_lod_tensor(&mut huge.as_slice()).is_err());
}
