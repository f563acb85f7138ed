package android.content;

public class ComponentName {
    public final String name;

    public ComponentName(String pkg, String cls) {
        name = pkg + "/" + cls;
    }

    public ComponentName(Context pkg, String cls) {
        this(pkg.getPackageName(), cls);
    }

    public ComponentName(Context pkg, Class<?> cls) {
        this(pkg.getPackageName(), cls.getName());
    }
}
