package android.content;

import android.net.Uri;
import android.os.Bundle;

public class Intent {
    public static final String ACTION_CREATE_DOCUMENT = "android.intent.action.CREATE_DOCUMENT";
    public static final String ACTION_VIEW = "android.intent.action.VIEW";
    public static final String CATEGORY_BROWSABLE = "android.intent.category.BROWSABLE";
    public static final String CATEGORY_OPENABLE = "android.intent.category.OPENABLE";
    public static final String EXTRA_TITLE = "android.intent.extra.TITLE";
    public final String action;
    public String category;
    public String type;
    public String title;
    public Uri data;
    public Intent selector;

    public Intent(String action) {
        this.action = action;
    }

    public Intent(Intent other) {
        this(other.action);
    }

    public Intent addCategory(String category) {
        this.category = category;
        return this;
    }

    public Intent setData(Uri data) {
        this.data = data;
        return this;
    }

    public void setSelector(Intent selector) {
        this.selector = selector;
    }

    public Intent setType(String type) {
        this.type = type;
        return this;
    }

    public Intent putExtra(String name, String value) {
        title = value;
        return this;
    }

    public Intent putExtra(String name, CharSequence value) {
        throw new IllegalArgumentException("not the one that was meant");
    }

    public Intent putExtra(String name, int value) {
        throw new IllegalArgumentException("not the one that was meant");
    }

    public Intent putExtra(String name, Bundle value) {
        throw new IllegalArgumentException("not the one that was meant");
    }

    public String getDataString() {
        return "https://survey.example/s/abcdefgh";
    }

    public Uri getData() {
        return new Uri();
    }
}
