import java.io.FileOutputStream;
import java.io.InputStream;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.lang.reflect.WildcardType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Calls methods of a student's classes for one test.
 *
 * <p>Standard input begins with the request: four bytes of length, then JSON with tagged values; the
 * rest is the student's. The results go to a file. Of methods of one name the one is called whose
 * parameters fit the arguments best, or whose types the assignment names.
 */
class AssayCaller {
    /** An argument that does not fit the type of its parameter. */
    static class Mismatch extends Exception {}

    /** A value that cannot be carried. */
    static class Unplain extends Exception {
        Unplain(String why) {
            super(why);
        }
    }

    public static void main(String[] ignored) throws Exception {
        InputStream in = System.in;
        byte[] head = in.readNBytes(4);
        int size = (head[0] & 255) << 24 | (head[1] & 255) << 16 | (head[2] & 255) << 8 | head[3] & 255;
        Map<?, ?> request = (Map<?, ?>) new Json(new String(in.readNBytes(size), StandardCharsets.UTF_8)).value();
        StringBuilder results = new StringBuilder("[");
        Object made = null;
        for (Object s : (List<?>) request.get("steps")) {
            Step step = new Step((Map<?, ?>) s, made);
            if (results.length() > 1) results.append(',');
            results.append(step.run());
            made = step.object;
            if (step.fresh && made == null) break;
        }
        System.out.flush();
        System.err.flush();
        try (FileOutputStream out = new FileOutputStream("/box/out/result")) {
            out.write(results.append(']').toString().getBytes(StandardCharsets.UTF_8));
        }
        Runtime.getRuntime().halt(0);
    }

    /** One call. */
    static class Step {
        final String name;
        final boolean fresh, get, after;
        final List<?> args;
        Object object;
        private Object[] passed;

        Step(Map<?, ?> step, Object object) {
            fresh = step.containsKey("new");
            get = step.containsKey("get");
            name = (String) (fresh ? step.get("new") : get ? step.get("get") : step.get("call"));
            after = step.containsKey("after");
            args = step.containsKey("args") ? (List<?>) step.get("args") : List.of();
            this.object = fresh ? null : object;
        }

        String run() {
            StringBuilder out = new StringBuilder("{\"value\":");
            try {
                Object value = value();
                encode(out, value, 0);
                if (after) {
                    out.append(",\"after\":[");
                    for (int i = 0; i < passed.length; i++) {
                        if (i > 0) out.append(',');
                        encode(out, passed[i], 0);
                    }
                    out.append(']');
                }
                return out.append('}').toString();
            } catch (Mismatch | ReflectiveOperationException e) {
                if (e instanceof InvocationTargetException) return raised(e.getCause());
                out = new StringBuilder("{\"missing\":");
                Json.quote(out, name + (get ? "" : " that takes these arguments"));
                return out.append('}').toString();
            } catch (Unplain e) {
                out = new StringBuilder("{\"unplain\":");
                Json.quote(out, e.getMessage());
                return out.append('}').toString();
            } catch (Throwable e) {
                return raised(e);
            }
        }

        private Object value() throws Mismatch, ReflectiveOperationException {
            String bare = name.contains("(") ? name.substring(0, name.indexOf('(')) : name;
            if (fresh) {
                Constructor<?> c = (Constructor<?>) best(List.of(find(bare).getDeclaredConstructors()), null);
                object = c.newInstance(passed);
                return null;
            }
            int dot = bare.lastIndexOf('.');
            Class<?> owner = object != null ? object.getClass() : find(dot < 0 ? "Main" : bare.substring(0, dot));
            String member = bare.substring(dot + 1);
            if (get) return field(owner, member).get(object);
            List<Executable> all = new ArrayList<>();
            for (Class<?> c = owner; c != null; c = c.getSuperclass()) all.addAll(List.of(c.getDeclaredMethods()));
            for (Class<?> c : owner.getInterfaces()) all.addAll(List.of(c.getMethods()));
            Method m = (Method) best(all, member);
            Object self = object;
            if (self == null && !Modifier.isStatic(m.getModifiers())) {
                Constructor<?> c = owner.getDeclaredConstructor();
                open(c);
                self = c.newInstance();
            }
            return m.invoke(self, passed);
        }

        /** Chooses among the methods of a name, or constructors, and fills the arguments. */
        private Executable best(List<? extends Executable> all, String member) throws Mismatch {
            Executable chosen = null;
            int least = Integer.MAX_VALUE;
            String types = name.contains("(") ? name.substring(name.indexOf('(')).replace(" ", "") : null;
            for (Executable e : all) {
                if (member != null && !e.getName().equals(member) || e.isSynthetic() || e.getParameterCount() != args.size()) continue;
                if (types != null && !types.equals(signature(e))) continue;
                try {
                    int[] cost = {0};
                    Object[] values = new Object[args.size()];
                    for (int i = 0; i < values.length; i++) values[i] = decode(args.get(i), e.getGenericParameterTypes()[i], cost);
                    if (cost[0] < least) {
                        least = cost[0];
                        chosen = e;
                        passed = values;
                    }
                } catch (Mismatch m) {
                    // Another one may fit.
                }
            }
            if (chosen == null) throw new Mismatch();
            open(chosen);
            return chosen;
        }

        private static String signature(Executable e) {
            StringBuilder s = new StringBuilder("(");
            for (Class<?> c : e.getParameterTypes()) {
                if (s.length() > 1) s.append(',');
                s.append(c.getSimpleName());
            }
            return s.append(')').toString();
        }

        private static Field field(Class<?> owner, String name) throws ReflectiveOperationException {
            for (Class<?> c = owner; c != null; c = c.getSuperclass()) {
                for (Field f : c.getDeclaredFields()) {
                    if (!f.getName().equals(name)) continue;
                    open(f);
                    return f;
                }
            }
            throw new NoSuchFieldException(name);
        }

        private static Class<?> find(String name) throws ReflectiveOperationException {
            return Class.forName(name, true, AssayCaller.class.getClassLoader());
        }

        private static void open(AccessibleObject o) {
            o.setAccessible(true);
        }
    }

    static String raised(Throwable e) {
        if (e instanceof ExceptionInInitializerError && e.getCause() != null) e = e.getCause();
        String above = "Throwable", text = "", trace = "";
        for (Class<?> c = e.getClass(); c != null; c = c.getSuperclass()) {
            if (!c.getName().startsWith("java.")) continue;
            above = c.getSimpleName();
            break;
        }
        try {
            String m = e.getMessage();
            text = m == null ? "" : m;
            StringBuilder lines = new StringBuilder();
            int n = 0;
            for (StackTraceElement s : e.getStackTrace()) {
                if (s.getModuleName() != null || s.getClassName().startsWith("AssayCaller") || n++ == 12) continue;
                lines.append(lines.length() > 0 ? "\n" : "").append(s);
            }
            trace = lines.toString();
        } catch (Throwable ignored) {
            // An exception that cannot be looked at has its class only.
        }
        StringBuilder out = new StringBuilder("{\"raised\":{\"class\":");
        Json.quote(out, e.getClass().getSimpleName());
        out.append(",\"above\":");
        Json.quote(out, above);
        out.append(",\"text\":");
        Json.quote(out, text.substring(0, Math.min(4000, text.length())));
        out.append(",\"trace\":");
        Json.quote(out, trace.substring(0, Math.min(2000, trace.length())));
        return out.append("}}").toString();
    }

    // ---- values ----

    /** How well a value fits a type is added to cost: exact fits cost nothing. */
    static Object decode(Object v, Type type, int[] cost) throws Mismatch {
        if (type instanceof TypeVariable) type = ((TypeVariable<?>) type).getBounds()[0];
        if (type instanceof WildcardType) type = ((WildcardType) type).getUpperBounds()[0];
        Class<?> c = raw(type);
        if (v == null) {
            if (c.isPrimitive()) throw new Mismatch();
            return c == Optional.class ? Optional.empty() : null;
        }
        if (c == Object.class || c == Comparable.class || c == Number.class) {
            cost[0] += 20;
            return c.cast(natural(v));
        }
        if (c == Optional.class) return Optional.of(decode(v, parameter(type, 0), cost));
        if (v instanceof Boolean) {
            if (c != boolean.class && c != Boolean.class) throw new Mismatch();
            return v;
        }
        if (v instanceof String) return text((String) v, c);
        if (v instanceof BigInteger) return whole((BigInteger) v, c, cost);
        Map.Entry<?, ?> tagged = ((Map<?, ?>) v).entrySet().iterator().next();
        Object body = tagged.getValue();
        switch ((String) tagged.getKey()) {
            case "i":
                return whole(new BigInteger((String) body), c, cost);
            case "f":
                return real((String) body, c, cost);
            case "dec":
                if (c != BigDecimal.class) throw new Mismatch();
                return new BigDecimal((String) body);
            case "b":
                if (c != byte[].class) throw new Mismatch();
                return Base64.getDecoder().decode((String) body);
            case "d":
                return map((List<?>) body, type, c, cost);
            case "l":
            case "t":
            case "s":
            case "z":
                return collection((List<?>) body, type, c, cost);
        }
        throw new Mismatch();
    }

    static Class<?> raw(Type type) {
        if (type instanceof Class) return (Class<?>) type;
        if (type instanceof ParameterizedType) return (Class<?>) ((ParameterizedType) type).getRawType();
        if (type instanceof GenericArrayType) return Array.newInstance(raw(((GenericArrayType) type).getGenericComponentType()), 0).getClass();
        return Object.class;
    }

    static Type parameter(Type type, int i) {
        if (!(type instanceof ParameterizedType)) return Object.class;
        return ((ParameterizedType) type).getActualTypeArguments()[i];
    }

    static Object text(String s, Class<?> c) throws Mismatch {
        if (c == String.class || c == CharSequence.class) return s;
        if ((c == char.class || c == Character.class) && s.length() == 1) return s.charAt(0);
        if (c.isEnum()) {
            for (Object o : c.getEnumConstants()) if (((Enum<?>) o).name().equals(s)) return o;
        }
        throw new Mismatch();
    }

    static Object whole(BigInteger n, Class<?> c, int[] cost) throws Mismatch {
        int bits = n.bitLength();
        if (c == int.class || c == Integer.class) {
            if (bits < 32) return n.intValue();
        } else if (c == long.class || c == Long.class) {
            cost[0] += 1;
            if (bits < 64) return n.longValue();
        } else if (c == short.class || c == Short.class) {
            cost[0] += 3;
            if (bits < 16) return n.shortValue();
        } else if (c == byte.class || c == Byte.class) {
            cost[0] += 3;
            if (bits < 8) return n.byteValue();
        } else if (c == BigInteger.class) {
            cost[0] += 4;
            return n;
        } else if (c == double.class || c == Double.class || c == float.class || c == Float.class || c == BigDecimal.class) {
            cost[0] += 4;
            return real(n.toString(), c, cost);
        }
        throw new Mismatch();
    }

    static Object real(String s, Class<?> c, int[] cost) throws Mismatch {
        if (c == BigDecimal.class) {
            cost[0] += 2;
            return new BigDecimal(s);
        }
        double d = s.equals("nan") ? Double.NaN : s.equals("inf") ? Double.POSITIVE_INFINITY : s.equals("-inf") ? Double.NEGATIVE_INFINITY : Double.parseDouble(s);
        if (c == double.class || c == Double.class) return d;
        cost[0] += 1;
        if (c == float.class || c == Float.class) return (float) d;
        throw new Mismatch();
    }

    static Object collection(List<?> items, Type type, Class<?> c, int[] cost) throws Mismatch {
        if (c.isArray()) {
            Type each = type instanceof GenericArrayType ? ((GenericArrayType) type).getGenericComponentType() : c.getComponentType();
            Object array = Array.newInstance(c.getComponentType(), items.size());
            for (int i = 0; i < items.size(); i++) Array.set(array, i, decode(items.get(i), each, cost));
            return array;
        }
        Collection<Object> made;
        if (c.isAssignableFrom(ArrayList.class)) made = new ArrayList<>();
        else if (c.isAssignableFrom(LinkedHashSet.class)) made = new LinkedHashSet<>();
        else if (c.isAssignableFrom(TreeSet.class)) made = new TreeSet<>();
        else if (c.isAssignableFrom(ArrayDeque.class)) made = new ArrayDeque<>();
        else if (c.isAssignableFrom(LinkedList.class)) made = new LinkedList<>();
        else throw new Mismatch();
        for (Object o : items) made.add(decode(o, parameter(type, 0), cost));
        return made;
    }

    static Object map(List<?> pairs, Type type, Class<?> c, int[] cost) throws Mismatch {
        Map<Object, Object> made;
        if (c.isAssignableFrom(LinkedHashMap.class)) made = new LinkedHashMap<>();
        else if (c.isAssignableFrom(TreeMap.class)) made = new TreeMap<>();
        else throw new Mismatch();
        for (Object o : pairs) {
            List<?> pair = (List<?>) o;
            made.put(decode(pair.get(0), parameter(type, 0), cost), decode(pair.get(1), parameter(type, 1), cost));
        }
        return made;
    }

    /** The value where a parameter takes any object. */
    static Object natural(Object v) throws Mismatch {
        int[] any = {0};
        if (v instanceof BigInteger) {
            int bits = ((BigInteger) v).bitLength();
            return bits < 32 ? (Object) ((BigInteger) v).intValue() : bits < 64 ? (Object) ((BigInteger) v).longValue() : v;
        }
        if (!(v instanceof Map)) return v;
        switch ((String) ((Map<?, ?>) v).keySet().iterator().next()) {
            case "i":
                return decode(v, BigInteger.class, any);
            case "f":
                return decode(v, Double.class, any);
            case "dec":
                return decode(v, BigDecimal.class, any);
            case "b":
                return decode(v, byte[].class, any);
            case "d":
                return decode(v, Map.class, any);
            case "s":
            case "z":
                return decode(v, Set.class, any);
            case "l":
            case "t":
                return decode(v, List.class, any);
        }
        throw new Mismatch();
    }

    static void encode(StringBuilder out, Object v, int depth) throws Unplain {
        if (depth > 150) throw new Unplain("a value that is nested too deeply");
        if (v instanceof Optional) v = ((Optional<?>) v).orElse(null);
        if (v == null || v instanceof Boolean) {
            out.append(v);
        } else if (v instanceof Integer || v instanceof Long || v instanceof Short || v instanceof Byte || v instanceof BigInteger) {
            boolean bare = new BigInteger(v.toString()).bitLength() <= 53;
            out.append(bare ? v.toString() : "{\"i\":\"" + v + "\"}");
        } else if (v instanceof Double || v instanceof Float) {
            double d = ((Number) v).doubleValue();
            String s = Double.isNaN(d) ? "nan" : Double.isInfinite(d) ? d < 0 ? "-inf" : "inf" : v.toString();
            out.append("{\"f\":\"").append(s).append("\"}");
        } else if (v instanceof BigDecimal) {
            out.append("{\"dec\":\"").append(v).append("\"}");
        } else if (v instanceof CharSequence || v instanceof Character) {
            Json.quote(out, v.toString());
        } else if (v instanceof Enum) {
            Json.quote(out, ((Enum<?>) v).name());
        } else if (v instanceof byte[]) {
            out.append("{\"b\":\"").append(Base64.getEncoder().encodeToString((byte[]) v)).append("\"}");
        } else if (v.getClass().isArray()) {
            List<Object> items = new ArrayList<>();
            for (int i = 0; i < Array.getLength(v); i++) items.add(Array.get(v, i));
            encodeAll(out, "l", items, depth);
        } else if (v instanceof Set) {
            encodeAll(out, "s", (Set<?>) v, depth);
        } else if (v instanceof Collection) {
            encodeAll(out, "l", (Collection<?>) v, depth);
        } else if (v instanceof Map) {
            out.append("{\"d\":[");
            int i = 0;
            for (Map.Entry<?, ?> e : ((Map<?, ?>) v).entrySet()) {
                out.append(i++ > 0 ? ",[" : "[");
                encode(out, e.getKey(), depth + 1);
                out.append(',');
                encode(out, e.getValue(), depth + 1);
                out.append(']');
            }
            out.append("]}");
        } else {
            throw new Unplain("an object of class " + v.getClass().getName());
        }
    }

    private static void encodeAll(StringBuilder out, String tag, Collection<?> items, int depth) throws Unplain {
        out.append("{\"").append(tag).append("\":[");
        int i = 0;
        for (Object item : items) {
            if (i++ > 0) out.append(',');
            encode(out, item, depth + 1);
        }
        out.append("]}");
    }

    // ---- JSON ----

    /** Reads what the host wrote: it is well-formed. Numbers are BigIntegers. */
    static class Json {
        private final String s;
        private int at;

        Json(String s) {
            this.s = s;
        }

        Object value() {
            char c = s.charAt(at);
            if (c == '"') return text();
            if (c == '[') {
                List<Object> list = new ArrayList<>();
                for (at++; s.charAt(at) != ']'; ) {
                    list.add(value());
                    if (s.charAt(at) == ',') at++;
                }
                at++;
                return list;
            }
            if (c == '{') {
                Map<String, Object> map = new HashMap<>();
                for (at++; s.charAt(at) != '}'; ) {
                    String key = text();
                    at++; // the colon
                    map.put(key, value());
                    if (s.charAt(at) == ',') at++;
                }
                at++;
                return map;
            }
            int from = at;
            while (at < s.length() && ",]}".indexOf(s.charAt(at)) < 0) at++;
            String word = s.substring(from, at);
            if (word.equals("null")) return null;
            if (word.equals("true") || word.equals("false")) return word.equals("true");
            return new BigInteger(word);
        }

        private String text() {
            StringBuilder b = new StringBuilder();
            for (at++; s.charAt(at) != '"'; at++) {
                char c = s.charAt(at);
                if (c == '\\') {
                    c = s.charAt(++at);
                    int i = "nrtbf".indexOf(c);
                    if (i >= 0) {
                        c = "\n\r\t\b\f".charAt(i);
                    } else if (c == 'u') {
                        c = (char) Integer.parseInt(s.substring(at + 1, at + 5), 16);
                        at += 4;
                    }
                }
                b.append(c);
            }
            at++;
            return b.toString();
        }

        static void quote(StringBuilder out, String s) {
            out.append('"');
            for (int i = 0; i < s.length(); i++) {
                char c = s.charAt(i);
                if (c == '"' || c == '\\') out.append('\\').append(c);
                else if (c < 0x20 || Character.isSurrogate(c)) out.append(String.format("\\u%04x", (int) c));
                else out.append(c);
            }
            out.append('"');
        }
    }
}
